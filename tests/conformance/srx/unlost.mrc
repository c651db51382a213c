# A packet that waits for its retransmission and turns out received is not sent again
requires SRX-007
knobs complete_on_sack=0

0      ! write len=64 id=1 signaled
0      > write_only psn=0
10us   < nack nack_psn=0 reason=0x0A
20us   < sack cack=0 rcvd=1
100us  < ack psn=0
100us  = done write id=1 status=success

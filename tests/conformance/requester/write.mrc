# A short write is one packet that asks for an acknowledgement; the Transport ACK completes it, the SACK does not
requires SEG-001, SEG-002, AREQ-001, TACK-002, TACK-003
knobs complete_on_sack=0

0     ! write id=7 len=13 from=100 at=4096 signaled
0     > write_only psn=0 len=13 from=100 at=4096 a=1 msn=0
10us  < sack cack=0 rcvd=1
20us  < ack psn=0 msn=1
20us  = done write id=7 status=success len=13

# Progress of the cumulative PSN brings the first pause back
requires NACK-004, SRX-006

0      ! write len=64
0      > write_only psn=0
10us   < nack nack_psn=0 reason=0x0A
60us   > write_only psn=0 rtx=1
70us   < ack psn=0
71us   ! write len=64
71us   > write_only psn=1 msn=1
80us   < nack nack_psn=1 reason=0x0A
130us  > write_only psn=1 rtx=1
140us  < ack psn=1

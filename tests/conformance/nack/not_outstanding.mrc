# A NACK for a PSN never sent is ignored
requires NACK-001

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=1 reason=0x01
11us  = count stale_nack=1
12us  < ack psn=0

# A NACK for a PSN below the cumulative one is ignored
requires NACK-001

0     ! write len=64
0     > write_only psn=0
10us  < ack psn=0
11us  < nack nack_psn=0 reason=0x19
12us  = count stale_nack=1
12us  = state rts

# A second NACK for the same copy resends nothing
requires NACK-001, NACK-007
knobs trimming

0     ! write len=64
0     > write_only psn=0 ev=@first
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=!@first
11us  < nack nack_psn=0 reason=0x01 entropy=@first
12us  = count stale_nack=1
20us  < ack psn=0

# With one path both copies have one entropy: a second NACK with a clear rtx flag is about the first copy, and resends nothing
requires NACK-001, NACK-007
knobs trimming evs=1

0     ! write len=64
0     > write_only psn=0 ev=@only
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=@only
11us  < nack nack_psn=0 reason=0x01 rtx=0
12us  = count stale_nack=1
20us  < nack nack_psn=0 reason=0x01 rtx=1
20us  > write_only psn=0 rtx=1 ev=@only
30us  < ack psn=0

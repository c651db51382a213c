# A NACK with another entropy than the latest copy's resends nothing
requires NACK-007
knobs trimming

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x01 entropy=0x7777
11us  = count stale_nack=1
20us  < ack psn=0

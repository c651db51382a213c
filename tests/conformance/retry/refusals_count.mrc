# NACKs of the oldest packet spend the retry budget as timeouts do, once per half base interval
requires RETRY-001, RETRY-003
knobs trimming timeout=10 linear=1 exp=0 base_rtt=10000000

0      ! write len=64 id=1
0      > write_only psn=0
20us   < nack nack_psn=0 reason=0x01
20us   > write_only psn=0 rtx=1
100us  < nack nack_psn=0 reason=0x01
100us  > write_only psn=0 rtx=1
600us  < nack nack_psn=0 reason=0x01
600us  = done write id=1 status=retry_exceeded
600us  = state error

# NAK 0x62 ends the QP: the request completes with an access error, the next one is flushed
requires AETH-005, TACK-005

0     ! write id=1 len=64
0     > write_only psn=0
1us   ! write id=2 len=64 at=64 from=64
1us   > write_only psn=1 len=64 at=64 from=64 msn=1
10us  < ack psn=0 syndrome=0x62
10us  = done write id=1 status=remote_access
10us  = done write id=2 status=flushed
11us  = state error
1ms   quiet

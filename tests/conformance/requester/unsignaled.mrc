# A request that is not signalled completes without an entry
requires TACK-002

0     ! write len=64 id=1
0     > write_only psn=0
1us   ! write len=64 id=2 signaled
1us   > write_only psn=1 msn=1
10us  < ack psn=1 msn=2
10us  = done write id=2 status=success

# UNEXP_EVENT ends the QP, and the request that it names with a remote operation error
requires NACK-006

0     ! write len=64 id=1
0     > write_only psn=0
1us   ! write len=64 id=2
1us   > write_only psn=1 msn=1
10us  < nack nack_psn=1 reason=0x19
10us  = done write id=1 status=flushed
10us  = done write id=2 status=remote_operation
11us  = state error

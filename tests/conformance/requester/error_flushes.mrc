# A QP moved to ERROR flushes what is queued and sends nothing more
requires ERR-001

0     ! write len=64 id=1
0     > write_only psn=0
1us   ! error
1us   = done write id=1 status=flushed
1ms   quiet

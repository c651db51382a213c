# Beyond both limits the QP fails and the oldest request says why
requires RETRY-003, QP-007, ERR-005
knobs timeout=9 linear=1 exp=0 base_rtt=10000000 probe_limit=160000

0           ! write len=64 id=1
0           > write_only psn=0
12.8us      ! write len=64 id=2
12.8us      > write_only psn=1 msn=1
524.288us   > write_only psn=0 rtx=1
524.288us   > probe
537.088us   > write_only psn=1 rtx=1
684.288us   > probe
1572.864us  = done write id=1 status=retry_exceeded
1572.864us  = done write id=2 status=flushed
2ms         quiet

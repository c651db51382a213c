# Beyond both limits the QP fails and the oldest request says why
requires RETRY-003, QP-007, ERR-005
knobs timeout=6 linear=1 exp=0 base_rtt=1000000

0           ! write len=64 id=1
0           > write_only psn=0
1.6us       ! write len=64 id=2
1.6us       > write_only psn=1 msn=1
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
67.136us    > write_only psn=1 rtx=1
75.536us    > probe
196.608us   = done write id=1 status=retry_exceeded
196.608us   = done write id=2 status=flushed
2ms         quiet

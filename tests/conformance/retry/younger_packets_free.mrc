# A timeout of a packet that is not the oldest charges no retry
requires RETRY-001
knobs timeout=6 linear=1 exp=0 base_rtt=1000000

0           ! write len=64
0           > write_only psn=0
40us        ! write len=64 id=2 signaled
40us        > write_only psn=1 msn=1
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
105.536us   > write_only psn=1 rtx=1
105.536us   > probe
110us       < ack psn=1
110us       = done write id=2 status=success

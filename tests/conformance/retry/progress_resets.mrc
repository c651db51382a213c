# Progress sets the retry count to zero: the next interval is the base one
requires RETRY-002, SRX-006
knobs timeout=6 linear=1 exp=5 base_rtt=1000000

0           ! write len=64
0           > write_only psn=0
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
70us        < ack psn=0
80us        ! write len=64
80us        > write_only psn=1 msn=1
145.536us   > write_only psn=1 rtx=1
145.536us   > probe
150us       < ack psn=1

# By the knob the first exponential retry waits as long as a linear one, and each further one twice as long
requires TIMER-002
knobs timeout=6 linear=1 exp=5 base_rtt=1000000 exp_from_t0=1

0           ! write len=64
0           > write_only psn=0
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
131.072us   > write_only psn=0 rtx=1
131.072us   > probe
262.144us   > write_only psn=0 rtx=1
262.144us   > probe
524.288us   > write_only psn=0 rtx=1
524.288us   > probe
525us       < ack psn=0

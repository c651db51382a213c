# Up to the linear limit every interval is the base one
requires TIMER-002, TIMER-003
knobs timeout=6 linear=3 base_rtt=1000000

0           ! write len=64
0           > write_only psn=0
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
131.072us   > write_only psn=0 rtx=1
131.072us   > probe
196.608us   > write_only psn=0 rtx=1
196.608us   > probe
200us       < ack psn=0

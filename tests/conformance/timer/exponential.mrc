# Beyond the linear limit it doubles with each retry
requires TIMER-002
knobs timeout=6 linear=1 exp=5 base_rtt=1000000 exp_from_t0=0

0           ! write len=64
0           > write_only psn=0
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
196.608us   > write_only psn=0 rtx=1
196.608us   > probe
458.752us   > write_only psn=0 rtx=1
458.752us   > probe
460us       < ack psn=0

# The knob tail_retry_paced: repeats go on each T0, but spend the budget no faster than the timer of a packet, whose second wait is 2 T0
requires TACK-004, RETRY-003
knobs timeout=6 linear=1 exp=0 base_rtt=1000000 tail_retry_paced complete_on_sack=0

0           ! write len=64 id=1
0           > write_only psn=0
16us        < sack cack=0 rcvd=1
81.536us    > write_only psn=0 rtx=1
147.072us   > write_only psn=0 rtx=1
212.608us   = done write id=1 status=retry_exceeded

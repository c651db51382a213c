# A packet that nobody acknowledges is sent again after T0, and its path is probed
requires TIMER-001, TIMER-004, TIMER-005
knobs timeout=6 base_rtt=50000

0          ! write len=64
0          > write_only psn=0 ev=@first
65.536us   > write_only psn=0 rtx=1 ev=!@first
65.536us   > probe ev=@first
66us       < sack cack=0 of=0 rtx=1
66us       < ack psn=0

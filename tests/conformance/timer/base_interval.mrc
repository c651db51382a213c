# The exponent doubles the interval
requires QP-006, TIMER-001, SND-007
knobs timeout=7 base_rtt=1000000

0          ! write len=64
0          > write_only psn=0
131.072us  > write_only psn=0 rtx=1
131.072us  > probe
132us      < ack psn=0

# Timeout exponent 0: no timer
requires QP-006
knobs timeout=0 base_rtt=1000000 target_delay=2000000

0      ! write len=64
0      > write_only psn=0
2.9ms  quiet
2.9ms  < ack psn=0

# A marked EV is not probed
requires EV-002, PROBE-005
knobs evs=2 probe_interval=1000000 base_rtt=100000

0      ! write len=64
0      > write_only psn=0
1us    < sack cack=0 m=1 rcvd=1
1us    < ack psn=0
12ms   quiet

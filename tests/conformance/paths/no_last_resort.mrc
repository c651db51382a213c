# The knob last_resort off: it waits
requires SEL-005, SEL-007
knobs evs=1 ev_min_active=0 last_resort=off base_rtt=500000

0      ! write len=64
0      > write_only psn=0 ev=0
1us    < sack cack=0 m=2 rcvd=1 rtx
1us    < ack psn=0
10us   ! write len=64
1ms    quiet

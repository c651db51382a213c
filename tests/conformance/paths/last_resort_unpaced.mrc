# By the knob packets leave on a bad EV at any pace when there is no other
requires SEL-005
knobs evs=1 ev_min_active=0 mtu=256 base_rtt=50000 last_resort=2

0      ! write len=64
0      > write_only psn=0 ev=0
1us    < sack cack=0 m=2 rcvd=1 rtx
1us    < ack psn=0
10us   ! write len=768
10us   > write_first psn=1 len=256 dmalen=768 msn=1 ev=0
10us   > write_middle psn=2 from=256 at=256 len=256 dmalen=768 msn=1 ev=0
10us   > write_last psn=3 from=512 at=512 len=256 dmalen=768 msn=1 ev=0
11us   < ack psn=3

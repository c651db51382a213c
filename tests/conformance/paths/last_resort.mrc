# With every EV bad one packet per base RTT leaves all the same
requires SEL-005
knobs evs=1 ev_min_active=0 mtu=256 base_rtt=50000 last_resort=1

0      ! write len=64
0      > write_only psn=0 ev=0
1us    < sack cack=0 m=2 rcvd=1 rtx
1us    < ack psn=0
10us   ! write len=768
10us   > write_first psn=1 len=256 dmalen=768 msn=1 ev=0
60us   > write_middle psn=2 from=256 at=256 len=256 dmalen=768 msn=1 ev=0
110us  > write_last psn=3 from=512 at=512 len=256 dmalen=768 msn=1 ev=0
111us  < ack psn=3

# A marked EV is passed over once and then used again: SKIP is not BAD
requires EV-010
knobs evs=2 mtu=256 skip_time=0

0     ! write len=64
0     > write_only psn=0 ev=@a
1us   < sack cack=0 m=1 rcvd=1
1us   < ack psn=0
2us   ! write len=64
2us   > write_only psn=1 ev=!@a msn=1
3us   < ack psn=1
4us   ! write len=64
4us   > write_only psn=2 ev=!@a msn=2
5us   < ack psn=2
6us   ! write len=1536
6us   > write_first psn=3 len=256 dmalen=1536 msn=3
6us   > write_middle psn=4..7 from=256 at=256 len=256 dmalen=1536 msn=3
6us   > write_last psn=8 from=1280 at=1280 len=256 dmalen=1536 msn=3
7us   = paths psn=3..8 distinct=2
8us   < ack psn=8

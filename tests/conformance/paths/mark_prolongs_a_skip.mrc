# By the knob a second mark prolongs a skip that lasts a millisecond
requires EV-003
knobs evs=2 mtu=256 skip_time=1000000 skip_extends=1

0       ! write len=64
0       > write_only psn=0 ev=@a
10us    < sack cack=0 m=1 rcvd=1
10us    < ack psn=0
20us    ! write len=1536
20us    > write_first psn=1 len=256 dmalen=1536 msn=1 ev=@b
20us    > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1 ev=@b
20us    > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1 ev=@b
30us    < ack psn=6
900us   < sack cack=6 m=1 entropy=@a rcvd=9
1.1ms   ! write len=1536
1.1ms   > write_first psn=7 len=256 dmalen=1536 msn=2 ev=@b
1.1ms   > write_middle psn=8..11 from=256 at=256 len=256 dmalen=1536 msn=2 ev=@b
1.1ms   > write_last psn=12 from=1280 at=1280 len=256 dmalen=1536 msn=2 ev=@b
1.11ms  < ack psn=12
2ms     ! write len=1536
2ms     > write_first psn=13 len=256 dmalen=1536 msn=3
2ms     > write_middle psn=14..17 from=256 at=256 len=256 dmalen=1536 msn=3
2ms     > write_last psn=18 from=1280 at=1280 len=256 dmalen=1536 msn=3
2.01ms  = paths psn=13..18 distinct=2
2.01ms  < ack psn=18

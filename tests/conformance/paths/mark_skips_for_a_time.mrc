# With skips that last a millisecond a marked EV rests so long, and a second mark does not prolong it
requires EV-002, EV-003, SRX-003
knobs evs=2 mtu=256 skip_time=1000000 skip_extends=0

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
1.1ms   > write_first psn=7 len=256 dmalen=1536 msn=2
1.1ms   > write_middle psn=8..11 from=256 at=256 len=256 dmalen=1536 msn=2
1.1ms   > write_last psn=12 from=1280 at=1280 len=256 dmalen=1536 msn=2
1.11ms  = paths psn=7..12 distinct=2
1.11ms  < ack psn=12

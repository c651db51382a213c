# A marked answer brings the EV back as SKIP: passed over once
requires EV-012
knobs evs=2 mtu=256 probe_interval=1024000

0        ! write len=64
0        > write_only psn=0 ev=@a
1.024us   < sack cack=0 m=2 rcvd=1
1.024us   < ack psn=0
8.193024ms  > probe ev=@a probe_id=@p
8.20ms   < sack cack=0 pr=1 ack_offset=@p entropy=@a rcvd=1 m=1
8.21ms   ! write len=2048
8.21ms   > write_first psn=1 len=256 dmalen=2048 msn=1 ev=!@a
8.21ms   > write_middle psn=2..7 from=256 at=256 len=256 dmalen=2048 msn=1
8.21ms   > write_last psn=8 from=1792 at=1792 len=256 dmalen=2048 msn=1
8.22ms   = paths psn=1..8 distinct=2
8.23ms   < ack psn=8

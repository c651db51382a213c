# ALWAYS_SKIP retires an EV: it carries nothing more, and is probed
requires EV-004, PROBE-005, RES-001, RES-004
knobs evs=2 mtu=256 probe_interval=1024000

0     ! write len=64
0     > write_only psn=0 ev=@a
1.024us  < sack cack=0 m=2 rcvd=1
1.024us  < ack psn=0
2us      ! write len=1536
2us   > write_first psn=1 len=256 dmalen=1536 msn=1 ev=@b
2us   > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1 ev=@b
2us   > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1 ev=@b
3us   < ack psn=6
8.193024ms > probe ev=@a

# By the knob a marked answer brings the EV back as GOOD
requires EV-012
knobs evs=2 mtu=256 probe_interval=1024000 skip_time=1000000 resurrect_probes=1 marked_probe_good=1

0          ! write len=64
0          > write_only psn=0 ev=@a
1.024us    < sack cack=0 m=2 rcvd=1
1.024us    < ack psn=0
8.193024ms > probe ev=@a probe_id=@p
8.20ms     < sack cack=0 pr=1 ack_offset=@p entropy=@a rcvd=1 m=1
8.21ms     ! write len=1536
8.21ms     > write_first psn=1 len=256 dmalen=1536 msn=1
8.21ms     > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1
8.21ms     > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1
8.22ms     = paths psn=1..6 distinct=2
8.22ms     < ack psn=6

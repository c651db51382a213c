# The last EV of the set is skipped, not retired: packets leave at once, and no probe tests it
requires BAL-002, SEL-003
knobs evs=1 ev_min_active=1 mtu=256 probe_interval=1000000 skip_time=0

0          ! write len=64
0          > write_only psn=0 ev=0
1us        < sack cack=0 m=2 rcvd=1
1us        < ack psn=0
2us        ! write len=768
2us..12us  > write_first psn=1 len=256 dmalen=768 msn=1 ev=0
2us..12us  > write_middle psn=2 from=256 at=256 len=256 dmalen=768 msn=1 ev=0
2us..12us  > write_last psn=3 from=512 at=512 len=256 dmalen=768 msn=1 ev=0
12us       = count ev_assumed_bad=0
13us       < ack psn=3
9ms        quiet

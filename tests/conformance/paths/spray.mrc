# Every EV of the set carries its share: eight packets over eight paths
requires SEL-001, BAL-003, SND-004
knobs mtu=256 evs=8

0     ! write len=2048
0     > write_first psn=0 len=256 dmalen=2048
0     > write_middle psn=1..6 from=256 at=256 len=256 dmalen=2048
0     > write_last psn=7 from=1792 at=1792 len=256 dmalen=2048
1us   = paths psn=0..7 distinct=8
2us   < ack psn=7

# Planes carry the same: of four packets two leave through each port
requires BAL-001, SEL-001
knobs mtu=256 evs=4 planes=2

0     ! write len=1024
0     > write_first psn=0 len=256 dmalen=1024
0     > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0     > write_last psn=3 from=768 at=768 len=256 dmalen=1024
1us   = paths psn=0..3 distinct=4
2us   < ack psn=3

# A port that the peer withdraws carries nothing more at once, and again when it returns
requires EPOP-005, SEL-006, PORT-004, ERTH-003
knobs planes=2 evs=4 mtu=256 port_mask_zero_based=0

0     ! write len=1024
0     > write_first psn=0 len=256 dmalen=1024
0     > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0     > write_last psn=3 from=768 at=768 len=256 dmalen=1024
1us   = paths psn=0..3 distinct=4
2us   < ack psn=3
3us   < ep_request psn=1 op=0 mask=0x2
3us   > ep_response psn=1 op=0
4us   ! write len=1024
4us   > write_first psn=4 len=256 dmalen=1024 msn=1 port=1
4us   > write_middle psn=5..6 from=256 at=256 len=256 dmalen=1024 msn=1 port=1
4us   > write_last psn=7 from=768 at=768 len=256 dmalen=1024 msn=1 port=1
5us   = paths psn=4..7 distinct=2
6us   < ack psn=7
7us   < ep_request psn=2 op=0 mask=0x6
7us   > ep_response psn=2 op=0
8us   ! write len=2048
8us   > write_first psn=8 len=256 dmalen=2048 msn=2
8us   > write_middle psn=9..14 from=256 at=256 len=256 dmalen=2048 msn=2
8us   > write_last psn=15 from=1792 at=1792 len=256 dmalen=2048 msn=2
9us   = paths psn=8..15 distinct=4
10us  < ack psn=15

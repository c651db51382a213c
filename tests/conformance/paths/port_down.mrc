# A port that goes down carries nothing more, and loses nothing by itself
requires PORT-001, PORT-002, PORT-003, SEL-006
knobs planes=2 evs=4 mtu=256 port_mask_zero_based=0

0     ! write len=512
0     > write_first psn=0 len=256 dmalen=512
0     > write_last psn=1 from=256 at=256 len=256 dmalen=512
1us   ! port port=1 down
1us   > ep_request op=0 mask=0x4 port=2 psn=@id
2us   < ep_response psn=@id op=0
3us   ! write len=1024
3us   > write_first psn=2 len=256 dmalen=1024 msn=1 port=2
3us   > write_middle psn=3..4 from=256 at=256 len=256 dmalen=1024 msn=1 port=2
3us   > write_last psn=5 from=768 at=768 len=256 dmalen=1024 msn=1 port=2
4us   = count retransmitted=0
5us   < ack psn=5
6us   ! port port=1
6us   > ep_request op=0 mask=0x6 psn=@x
6us   > ep_request op=0 mask=0x6 psn=@y
7us   ! write len=2048
7us   > write_first psn=6 len=256 dmalen=2048 msn=2
7us   > write_middle psn=7..12 from=256 at=256 len=256 dmalen=2048 msn=2
7us   > write_last psn=13 from=1792 at=1792 len=256 dmalen=2048 msn=2
8us   = paths psn=6..13 distinct=4
9us   < ack psn=13

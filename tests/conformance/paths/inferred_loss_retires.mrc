# With trimming it retires the EV: congestion would have trimmed the packet
requires EV-008
knobs mtu=256 reorder_factor=0 trimming reorder_min=3

0     ! write len=1536
0     > write_first psn=0 len=256 dmalen=1536
0     > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0     > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
60us  < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
60us  > write_first psn=0 rtx=1
60us  = count ev_assumed_bad=1
80us  < ack psn=5

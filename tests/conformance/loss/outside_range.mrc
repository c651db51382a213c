# A PSN outside the SACK's own bitmap is not inferred lost
requires LOSS-001
knobs mtu=256 reorder_factor=0

0     ! write len=1536
0     > write_first psn=0 len=256 dmalen=1536
0     > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0     > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
60us  < sack cack=0xFFFFFF ack_offset=6 sack_offset=2 bitmap=0x1F rcvd=7
80us  < ack psn=5

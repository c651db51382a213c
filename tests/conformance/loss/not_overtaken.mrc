# Two later packets are no proof
requires LOSS-002
knobs mtu=256 reorder_factor=0

0     ! write len=768
0     > write_first psn=0 len=256 dmalen=768
0     > write_middle psn=1 from=256 at=256 len=256 dmalen=768
0     > write_last psn=2 from=512 at=512 len=256 dmalen=768
60us  < sack cack=0xFFFFFF ack_offset=2 bitmap=0x2 rcvd=2
80us  < ack psn=2

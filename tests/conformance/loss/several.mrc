# Several gaps are resent in the order of their PSNs
requires SND-001, LOSS-002
knobs mtu=256 reorder_factor=0 reorder_min=3

0     ! write len=2048
0     > write_first psn=0 len=256 dmalen=2048
0     > write_middle psn=1..6 from=256 at=256 len=256 dmalen=2048
0     > write_last psn=7 from=1792 at=1792 len=256 dmalen=2048
60us  < sack cack=0 ack_offset=7 bitmap=0x76 rcvd=9
60us  > write_middle psn=1 rtx=1
60us  > write_middle psn=4 rtx=1
80us  < ack psn=7

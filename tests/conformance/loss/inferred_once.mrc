# What overtakes the repetition of a packet that was inferred lost does not make it leave once more
requires LOSS-004
knobs mtu=256 reorder_factor=0 reorder_min=3

0     ! write len=1536
0     > write_first psn=0 len=256 dmalen=1536
0     > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0     > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
60us  < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
60us  > write_first psn=0 rtx=1
70us  ! write len=1536
70us  > write_first psn=6 msn=1 len=256 dmalen=1536
70us  > write_middle psn=7..10 msn=1 from=256 at=256 len=256 dmalen=1536
70us  > write_last psn=11 msn=1 from=1280 at=1280 len=256 dmalen=1536
125us < sack cack=0xFFFFFF ack_offset=9 bitmap=0x1FE rcvd=11
130us < sack cack=0xFFFFFF ack_offset=12 bitmap=0xFFE rcvd=15
140us < ack psn=11

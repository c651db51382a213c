# A bitmap across the wrap of the PSN space shows the gap before the wrap
requires GEN-003, SETH-008, LOSS-001
knobs mtu=256 reorder_factor=0 reorder_min=3 sq_psn=0xFFFFFE

0     ! write len=1536
0     > write_first psn=0xFFFFFE len=256 dmalen=1536
0     > write_middle psn=0xFFFFFF from=256 at=256 len=256 dmalen=1536
0     > write_middle psn=0..2 from=512 at=512 len=256 dmalen=1536
0     > write_last psn=3 from=1280 at=1280 len=256 dmalen=1536
60us  < sack cack=0xFFFFFD ack_offset=6 bitmap=0x3E rcvd=7
60us  > write_first psn=0xFFFFFE rtx=1
80us  < ack psn=3

# A congestion window smaller than the peer's SACK threshold asks with every packet
requires AREQ-002, NSCC-023
knobs mtu=1024 window=8192 sack_threshold=16384

0     ! write len=3072
0     > write_first psn=0 len=1024 dmalen=3072 a=1
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=3072 a=1
0     > write_last psn=2 from=2048 at=2048 len=1024 dmalen=3072 a=1
10us  < ack psn=2

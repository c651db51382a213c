# A SACK overtaken by a newer one gives no room a second time
requires SRX-005, SRX-002, CTL-001
knobs mtu=1024 window=2224 sack_threshold=2048 send_below_window=0

0     ! write len=6144
0     > write_first psn=0 len=1024 dmalen=6144
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=6144 a=any
10us  < sack cack=1 rcvd=9
10us  > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=6144
10us  > write_middle psn=3 from=3072 at=3072 len=1024 dmalen=6144 a=any
11us  < sack cack=0 rcvd=5
30us  < sack cack=2 rcvd=14
30us  > write_middle psn=4 from=4096 at=4096 len=1024 dmalen=6144 a=any
40us  < sack cack=4 rcvd=22
40us  > write_last psn=5 from=5120 at=5120 len=1024 dmalen=6144
50us  < ack psn=5

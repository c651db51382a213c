# Two packets fill a congestion window of two; received bytes open it, and a full window asks for acknowledgements
requires SND-003, AREQ-002, NSCC-022, NSCC-023
knobs mtu=1024 window=2224 sack_threshold=2048 send_below_window=0

0     ! write len=4096
0     > write_first psn=0 len=1024 dmalen=4096
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=4096 a=1
10us  < sack cack=0 rcvd=5
10us  > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=4096 a=1
20us  < sack cack=2 rcvd=14
20us  > write_last psn=3 from=3072 at=3072 len=1024 dmalen=4096
30us  < ack psn=3

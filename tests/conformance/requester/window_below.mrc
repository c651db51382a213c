# By the knob a packet leaves while less than the window is in flight, though it does not fit
requires NSCC-022
knobs mtu=1024 window=2500 sack_threshold=2048 send_below_window=1

0     ! write len=4096
0     > write_first psn=0 len=1024 dmalen=4096
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=4096 a=any
0     > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=4096 a=any
10us  < ack psn=2
10us  > write_last psn=3 from=3072 at=3072 len=1024 dmalen=4096
20us  < ack psn=3

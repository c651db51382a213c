# Behind a window that shrank a retransmission waits, too, until the cumulative PSN has come near enough
requires SND-002, DMPR-004
knobs mtu=256 mpr_tx=2 dynamic_mpr trimming

0     ! write len=51200
0     > write_first psn=0 len=256 dmalen=51200
0     > write_middle psn=1..198 from=256 at=256 len=256 dmalen=51200
0     > write_last psn=199 from=50944 at=50944 len=256 dmalen=51200
10us  < sack cack=0 rcvd=2 mpr=1
11us  < nack nack_psn=150 reason=0x01
29us  quiet
30us  < sack cack=50 rcvd=69 mpr=1
30us  > write_middle psn=150 from=38400 at=38400 len=256 dmalen=51200 rtx=1 a=any
40us  < ack psn=199

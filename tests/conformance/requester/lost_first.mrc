# A lost packet goes before new ones, the lowest PSN first, with rtx set
requires SND-001, BTH-008
knobs mtu=1024 window=2224 sack_threshold=2048 trimming

0     ! write len=4096
0     > write_first psn=0 len=1024 dmalen=4096
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=4096 a=any
10us  < nack nack_psn=1 reason=0x01
10us  > write_middle psn=1 rtx=1
20us  < nack nack_psn=0 reason=0x01
20us  > write_first psn=0 rtx=1 a=any
30us  < sack cack=1 rtx=1 rcvd=9
30us  > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=4096
30us  > write_last psn=3 from=3072 at=3072 len=1024 dmalen=4096
40us  < ack psn=3

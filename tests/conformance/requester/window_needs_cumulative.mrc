# Packets SACKed above a hole open no window
requires SND-002
knobs mtu=256 mpr_tx=1

0     ! write len=33280
0     > write_first psn=0 len=256 dmalen=33280
0     > write_middle psn=1..126 from=256 at=256 len=256 dmalen=33280
0     > write_middle psn=127 from=32512 at=32512 len=256 dmalen=33280 a=any
10us  < sack cack=0xFFFFFF ack_offset=2 bitmap=0x2 rcvd=2
20us  < ack psn=127
20us  > write_middle psn=128 from=32768 at=32768 len=256 dmalen=33280
20us  > write_last psn=129 from=33024 at=33024 len=256 dmalen=33280
30us  < ack psn=129

# The packet that fills the window of PSNs asks for an acknowledgement: nothing else would open it again
requires AREQ-004
knobs mtu=256 mpr_tx=1

0     ! write len=33280
0     > write_first psn=0 len=256 dmalen=33280 a=any
0     > write_middle psn=1..126 from=256 at=256 len=256 dmalen=33280 a=any
0     > write_middle psn=127 from=32512 at=32512 len=256 dmalen=33280 a=1
10us  < sack cack=0 ack_offset=0 rcvd=2
10us  > write_middle psn=128 from=32768 at=32768 len=256 dmalen=33280 a=1
20us  < ack psn=128
20us  > write_last psn=129 from=33024 at=33024 len=256 dmalen=33280
30us  < ack psn=129

# PSNs wrap inside a SACK
requires GEN-003, SACK-008
knobs psn=0xFFFFFE

0    < write_first psn=0xFFFFFE len=1024 dmalen=4096
1us  < write_last psn=1 at=3072 len=1024 dmalen=4096 a
1us  > sack cack=0xFFFFFE ack_offset=3 bitmap=0x4 ooo=1
2us  < write_middle psn=0 at=2048 len=1024 dmalen=4096
3us  < write_middle psn=0xFFFFFF at=1024 len=1024 dmalen=4096
3us  > ack psn=1 msn=1

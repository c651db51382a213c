# Answers rotate over the planes
requires REV-001, REV-004
knobs planes=2 evs=2 mtu=256

0    < write_middle psn=1 at=256 len=256 dmalen=4096 rtx
0    > sack cack=0xFFFFFF bitmap=0x2 ooo=1 rtx=1 ev=@one
1us  < write_middle psn=2 at=512 len=256 dmalen=4096 rtx port=2
1us  > sack cack=0xFFFFFF bitmap=0x6 ooo=2 rtx=1 ev=!@one
2us  < write_middle psn=3 at=768 len=256 dmalen=4096 rtx
2us  > sack cack=0xFFFFFF bitmap=0xE ooo=3 rtx=1 ev=@one

# Answers rotate over the planes
requires REV-001, REV-004
knobs planes=2 evs=2 mtu=256

0    < write_first psn=0 len=256 dmalen=4096 rtx
0    > sack cack=0 rtx=1 ev=@one
1us  < write_middle psn=1 len=256 dmalen=4096 rtx port=2
1us  > sack cack=1 rtx=1 ev=!@one
2us  < write_middle psn=2 len=256 dmalen=4096 rtx
2us  > sack cack=2 rtx=1 ev=@one

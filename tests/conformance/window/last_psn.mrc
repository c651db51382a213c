# The last PSN of the window is taken
requires RSP-006
knobs mpr=1

0    < write_middle psn=127 at=0 len=1024 dmalen=4096 a
0    > sack cack=0xFFFFFF ooo=1
1us  = memory at=0 len=1024 psn=127

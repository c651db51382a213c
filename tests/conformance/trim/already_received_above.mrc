# So does a trimmed copy of a packet above a hole
requires TRIM-007

0    < write_middle psn=1 len=1024 dmalen=4096
1us  < write_middle psn=1 len=1024 dmalen=4096 trim=24
1us  > sack cack=0xFFFFFF bitmap=0x2 ooo=1

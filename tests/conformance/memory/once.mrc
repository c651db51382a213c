# A PSN is placed once: a second packet with other bytes changes nothing
requires RSP-010

0    < write_middle psn=3 at=0 len=1024 dmalen=9000 fill=1
1us  < write_middle psn=3 at=0 len=1024 dmalen=9000 fill=2
1us  > sack cack=0xFFFFFF bitmap=0x8 ooo=1
2us  = memory at=0 len=1024 psn=1

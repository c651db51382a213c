# Each packet is placed at its own address as it comes, the last one first
requires MODEL-002, RETH-001

0    < write_last psn=2 at=2048 len=100 dmalen=2148
1us  = memory at=2048 len=100 psn=2
2us  < write_middle psn=1 at=1024 len=1024 dmalen=2148
3us  = memory at=1024 len=1024 psn=1
3us  = memory at=0 len=1024 untouched
4us  < write_first psn=0 at=0 len=1024 dmalen=2148
4us  > ack psn=2 msn=1
5us  = memory at=0 len=1024 psn=0

# A full packet of path MTU 4096
requires LEN-001, LEN-002
knobs mtu=4096

0    < write_first psn=0 len=4096 dmalen=8192
1us  < write_last psn=1 at=4096 len=4096 dmalen=8192 a
1us  > sack cack=1
1us  > ack psn=1 msn=1
2us  = memory at=4096 len=4096 psn=1

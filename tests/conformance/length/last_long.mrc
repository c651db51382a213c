# A last packet longer than the path MTU is refused
requires LEN-003, VAL-016
knobs mtu=256

0    < write_last psn=0 len=260 dmalen=516
0    > ack psn=0 syndrome=0x61 msn=any
1us  = state error

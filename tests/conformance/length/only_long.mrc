# A packet longer than the path MTU is refused
requires LEN-003, VAL-016
knobs mtu=1024

0    < write_only psn=0 len=1028
0    > ack psn=0 syndrome=0x61 msn=any
1us  = memory at=0 len=1028 untouched

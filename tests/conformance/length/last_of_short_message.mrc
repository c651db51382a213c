# A last packet belongs to a message of more than one path MTU
requires LEN-005, VAL-016

0    < write_last psn=0 len=64 dmalen=1024
0    > ack psn=0 syndrome=0x61 msn=any
1us  = state error

# A first packet has no pad
requires LEN-002, VAL-016

0    < write_first psn=0 len=1022 dmalen=3000
0    > ack psn=0 syndrome=0x61 msn=0
1us  = state error

# A first packet of a message that fits into one packet is refused
requires LEN-005, VAL-016

0    < write_first psn=0 len=1024 dmalen=1024
0    > ack psn=0 syndrome=0x61 msn=0
1us  = state error

# An only packet whose message length is not its payload is refused
requires LEN-005, VAL-016

0    < write_only psn=0 len=64 dmalen=65
0    > ack psn=0 syndrome=0x61 msn=any
1us  = state error

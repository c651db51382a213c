# A middle packet that is not full is refused
requires LEN-002, VAL-016

0    < write_first psn=0 len=1024 dmalen=3000
1us  < write_middle psn=1 at=1024 len=1000 dmalen=3000
1us  > ack psn=1 syndrome=0x61 msn=0
2us  = state error

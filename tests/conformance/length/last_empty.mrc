# A last packet without payload is refused
requires LEN-003, VAL-016

0    < write_first psn=0 len=1024 dmalen=2048
1us  < write_last psn=1 at=1024 len=0 dmalen=2048
1us  > ack psn=1 syndrome=0x61 msn=any
2us  = state error

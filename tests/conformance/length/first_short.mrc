# A first packet that is not full is refused with NAK 0x61 and the QP fails
requires LEN-002, VAL-016, ERR-002

0    < write_first psn=0 len=512 dmalen=2048
0    > ack psn=0 syndrome=0x61 msn=0
1us  = state error
1us  = memory at=0 len=512 untouched

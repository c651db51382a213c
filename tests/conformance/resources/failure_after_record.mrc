# A packet that cannot be placed although it was recorded: NAK 0x63, and the QP fails
requires VAL-019

0    < write_first psn=0 len=1024 dmalen=4096
1us  ! place_failure psn=0
1us  > ack psn=0 syndrome=0x63 msn=0
2us  = state error

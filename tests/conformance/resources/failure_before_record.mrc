# A device failure before anything is recorded: NACK UNEXP_EVENT, and the QP fails
requires VAL-019

0    ! refuse reason=0x19
1us  < write_only psn=0 len=64
1us  > nack nack_psn=0 reason=0x19
2us  = state error

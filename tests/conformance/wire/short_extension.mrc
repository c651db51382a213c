# A SACK opcode with too few bytes behind it is dropped
requires VAL-009

0    < ack psn=0 opcode=0xDC
1us  = count short=1

# A SACK opcode with too few bytes behind it is dropped
requires VAL-009

0    < ack psn=0 opcode=0xDC
1us  = count short=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

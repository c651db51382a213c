# An opcode that MRC does not have is dropped
requires VAL-007, MODEL-001

0    < write_only psn=0 len=64 a opcode=0xC4
1us  = count opcode=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# A packet for no existing QP is dropped
requires VAL-011, BTH-007

0    < write_only psn=0 len=64 a dqp=0x000005
1us  = count qpn=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# An endpoint request to another QP than 2 is dropped
requires VAL-011

0    < ep_request op=1 dqp=0x000777
1us  = count qpn=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

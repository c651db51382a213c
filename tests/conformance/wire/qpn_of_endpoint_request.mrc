# An endpoint request to another QP than 2 is dropped
requires VAL-011

0    < ep_request op=1 dqp=0x000777
1us  = count qpn=1

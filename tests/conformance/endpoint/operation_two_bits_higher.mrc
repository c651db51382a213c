# By the knob the operation of a response stands two bits higher
requires EETH-001
knobs eeth_op_bit=4

0    < ep_request psn=0xCDEF op=1 stamp=0x4321 ev=0x00091234
0    > ep_response psn=0xCDEF op=1 stamp=0x4321

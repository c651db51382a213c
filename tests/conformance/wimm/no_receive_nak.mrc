# The knob no_receive=nak: NAK 0x63, and the QP fails
requires WIMM-006
knobs no_receive=nak

0    < write_only_imm psn=0 len=64 imm=9
0    > ack psn=0 syndrome=0x63 msn=any
1us  = state error

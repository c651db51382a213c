# The knob bth_se_bit moves the solicited bit to bit 6
requires BTH-002
knobs bth_se_bit=6

0    ! recv id=1
0    < write_only_imm psn=0 len=64 imm=3 mig
0    > ack psn=0
0    = done recv id=1 se=1

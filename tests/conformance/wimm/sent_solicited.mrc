# The solicited bit is set on the packet with the immediate, when asked for
requires BTH-003, BTH-002
knobs bth_se_bit=7

0     ! write len=1028 imm=5 se
0     > write_first psn=0 len=1024 dmalen=1028 bth.se=0 rqmsn=0
0     > write_last_imm psn=1 from=1024 at=1024 len=4 dmalen=1028 imm=5 bth.se=1
10us  < ack psn=1

# Immediates that arrive in the wrong order are delivered in PSN order
requires WIMM-004, WIMM-001

0    ! recv id=1
0    ! recv id=2
0    ! recv id=3
1us  < write_only_imm psn=2 len=0 imm=102 rqmsn=2
2us  < write_only_imm psn=1 len=0 imm=101 rqmsn=1
3us  < write_only_imm psn=0 len=0 imm=100
3us  > ack psn=2 msn=3
3us  = done recv id=1 imm=100
3us  = done recv id=2 imm=101
3us  = done recv id=3 imm=102

# An immediate completes the oldest receive request with word and length
requires WIMM-003, WIMM-004, IMM-001

0    ! recv id=5
0    ! recv id=6
1us  < write_only_imm psn=0 len=100 imm=0xDEADBEEF
1us  > ack psn=0
1us  = done recv id=5 imm=0xDEADBEEF len=100 se=0 status=success
2us  = memory at=0 len=100 psn=0

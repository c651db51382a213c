# As many as agreed are kept
requires WIMM-001, WIMM-002
knobs max_wimm_dest=2

0    ! recv id=1
0    ! recv id=2
0    < write_only_imm psn=1 len=64 imm=1
1us  < write_only_imm psn=2 len=64 imm=2 rqmsn=1
2us  < write_only psn=0 len=64
2us  > ack psn=2 msn=3
2us  = done recv id=1 imm=1
2us  = done recv id=2 imm=2

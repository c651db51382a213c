# The immediate of a long message comes with its last packet and the whole length
requires WIMM-004, IMM-001, SEG-004

0    ! recv id=5
1us  < write_first psn=0 len=1024 dmalen=1100
2us  < write_last_imm psn=1 at=1024 len=76 dmalen=1100 imm=77
2us  > ack psn=1 msn=1
2us  = done recv id=5 imm=77 len=1100

# One immediate more than agreed, behind a hole: NAK, and the QP fails
requires WIMM-002
knobs max_wimm_dest=1 wimm_nak_syndrome=0x61

0    < write_only_imm psn=1 len=64 imm=1
1us  < write_only_imm psn=2 len=64 imm=2
1us  > ack psn=2 syndrome=0x61 msn=0
2us  = state error

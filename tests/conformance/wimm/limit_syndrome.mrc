# The code of that NAK is a knob
requires WIMM-002
knobs max_wimm_dest=1 wimm_nak_syndrome=0x64

0    < write_only_imm psn=1 len=64 imm=1
1us  < write_only_imm psn=2 len=64 imm=2
1us  > ack psn=2 syndrome=0x64 msn=0

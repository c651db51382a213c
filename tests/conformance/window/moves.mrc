# The window moves with the cumulative PSN
requires RSP-006, RSP-009, RSP-001
knobs mtu=256 mpr=1 oor_silent=0

0    < write_first psn=0 len=256 dmalen=90000
1us  < write_middle psn=128 len=256 dmalen=90000
2us  < write_middle psn=129 len=256 dmalen=90000
2us  > nack nack_psn=129 reason=0x0B

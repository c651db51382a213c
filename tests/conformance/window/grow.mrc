# A grown window takes more at once
requires DMPR-001, RSP-006
knobs mtu=256 mpr=1 dynamic_mpr oor_silent=0

0    < write_middle psn=130 len=256 dmalen=90000
0    > nack nack_psn=130 reason=0x0B
1us  = count psn_oor_window=1

# The window reaches across the wrap of the PSN space: the worked example of the reference
requires INV-007, GEN-003, RSP-006
knobs mtu=256 mpr=8 psn=0xFFFFFF oor_silent=0

0    < write_middle psn=0x0003FE len=256 dmalen=90000
1us  < write_middle psn=0x0003FF len=256 dmalen=90000
1us  > nack nack_psn=0x0003FF reason=0x0B

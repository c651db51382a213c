# A shrunken window keeps what was offered before
requires DMPR-002, RSP-006
knobs mtu=256 mpr=2 dynamic_mpr oor_silent=0 right_edge_retreats=0

0    ! mpr units=1
1us  < write_middle psn=255 len=256 dmalen=90000
2us  < write_middle psn=256 len=256 dmalen=90000
2us  > nack nack_psn=256 reason=0x0B

# By the knob a shrunken window refuses what the wider one allowed
requires DMPR-002, RSP-006
knobs mtu=256 mpr=2 dynamic_mpr oor_silent=0 right_edge_retreats=1

0    ! mpr units=1
1us  < write_middle psn=127 len=256 dmalen=90000
2us  < write_middle psn=128 len=256 dmalen=90000
2us  > nack nack_psn=128 reason=0x0B

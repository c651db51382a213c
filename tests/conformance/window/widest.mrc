# A window of 128 units, 16384 PSNs
requires QP-005, RSP-006
knobs mtu=256 mpr=128 oor_silent=0

0    < write_middle psn=16383 len=256 dmalen=90000
1us  < write_middle psn=16384 len=256 dmalen=90000
1us  > nack nack_psn=16384 reason=0x0B

# A PSN 2^22 ahead still draws its NACK
requires RSP-005
knobs oor_silent=0

0    < write_only psn=0x3FFFFF len=64
0    > nack nack_psn=0x3FFFFF reason=0x0B

# A duplicate above a hole is SACKed, not acknowledged and not placed again
requires SACK-006, RSP-003

0    < write_middle psn=1 at=1024 len=1024 dmalen=4096
1us  < write_middle psn=1 at=1024 len=1024 dmalen=4096 fill=99
1us  > sack cack=0xFFFFFF sack_offset=1 bitmap=0x2 ooo=1
2us  = memory at=1024 len=1024 psn=1

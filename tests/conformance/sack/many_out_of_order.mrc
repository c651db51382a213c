# The out-of-order count counts every packet above the hole
requires SACK-013, CCS-002, SACK-012
knobs mtu=256 sack_threshold=65536

0    < write_middle psn=1..20 at=0 len=256 dmalen=90000
1us  < write_middle psn=21 at=5120 len=256 dmalen=90000 rtx
1us  > sack cack=0xFFFFFF bitmap=0x3FFFFE ooo=21 rtx=1

# The first PSN behind the hole is bit 1
requires SETH-008, SACK-012
knobs mtu=256

0    < write_middle psn=1 len=256 dmalen=90000 a
0    > sack cack=0xFFFFFF sack_offset=1 bitmap=0x2 ooo=1

# The newest of 64 PSNs is bit 63
requires SETH-008, SACK-011, SACK-012
knobs mtu=256

0    < write_middle psn=63 len=256 dmalen=90000 a
0    > sack cack=0xFFFFFF sack_offset=1 bitmap=0x8000000000000000 ooo=1

# EV and timestamp are those of the packet that triggered, not of the first
requires SACK-009, CCS-001, SETH-005
knobs mtu=256

0    < write_first psn=0 len=256 dmalen=4096 ev=0x11111111 stamp=0x1111
1us  < write_middle psn=1 at=256 len=256 dmalen=4096 ev=0x00022222 stamp=0x2222 rtx
1us  > sack cack=1 ack_offset=0 entropy=0x00022222 stamp=0x2222 rtx=1

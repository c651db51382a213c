# A gap is reported and the data beyond it is kept
requires SACK-008, RSP-009, SETH-007
knobs mtu=4096

0    < write_first psn=0 len=4096 dmalen=12288
1us  < write_last psn=2 at=8192 len=4096 dmalen=12288 a
1us  > sack cack=0 bitmap=0x2 ooo=1
2us  = memory at=8192 len=4096 psn=2
3us  < write_middle psn=1 at=4096 len=4096 dmalen=12288
3us  > ack psn=2 msn=1

# The context numbers are the low halves of own and peer QP number
requires SETH-006, SETH-001

0    < write_only psn=0 len=64 a
0    > sack cack=0 dpdcid=0xA0A1
0    > ack psn=0

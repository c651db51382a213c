# The context numbers are the low halves of both QP numbers, in the order of the knob pdcid_order
requires SETH-006, SETH-001

0    < write_only psn=0 len=64 a
0    > sack cack=0
0    > ack psn=0

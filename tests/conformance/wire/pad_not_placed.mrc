# Pad bytes are not placed
requires LEN-004, BTH-004

0    < write_only psn=0 len=13 a pad=3
0    > sack cack=0
0    > ack psn=0
1us  = memory at=0 len=13 psn=0
1us  = memory at=13 len=3 untouched

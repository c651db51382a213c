# A QP in RTR takes writes
requires VAL-014, QP-002
knobs state=rtr

0    < write_only psn=0 len=64 a
0    > sack cack=0
0    > ack psn=0

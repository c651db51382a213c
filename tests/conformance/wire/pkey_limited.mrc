# A limited member of the same partition may talk to a full one
requires VAL-012
knobs pkey=0xFFFF

0    < write_only psn=0 len=64 a pkey=0x7FFF
0    > sack cack=0
0    > ack psn=0

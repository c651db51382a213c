# A routing header with nothing left is stepped over
requires SRH-001, SRH-004
knobs srv6

0    < write_only psn=0 len=64 a srh=0
0    > sack cack=0
0    > ack psn=0

# A timestamp of a private unit is copied as it is
requires TS-003

0    < write_only psn=0 len=64 a stamp=0x7777 tsr=1
0    > sack cack=0 stamp=0x7777
0    > ack psn=0

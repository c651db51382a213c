# The partition key is 0xFFFF by default
requires BTH-006
knobs pkey=0xFFFF

0    < write_only psn=0 len=64 a pkey=0xFFFF
0    > sack cack=0 pkey=0xFFFF
0    > ack psn=0 pkey=0xFFFF

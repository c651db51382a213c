# The partition key of what is sent is configuration
requires BTH-006
knobs pkey=0x8001

0    < write_only psn=0 len=64 a
0    > sack cack=0 pkey=0x8001
0    > ack psn=0 pkey=0x8001

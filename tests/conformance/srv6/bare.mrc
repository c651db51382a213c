# The bare inner packet is taken as well
requires HOST-001
knobs srv6

0    < write_only psn=0 len=64 a bare
0    > sack cack=0
0    > ack psn=0

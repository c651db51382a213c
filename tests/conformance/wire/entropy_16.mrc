# A 16-bit EV may be 0: the source port has no forbidden value
requires EVW-001, EVW-003

0    < write_only psn=0 len=64 a ev=0
0    > sack cack=0 entropy=0
0    > ack psn=0

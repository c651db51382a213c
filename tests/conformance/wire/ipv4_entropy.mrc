# Over IPv4 the upper half of the echoed entropy is zero
requires IP4-003, EVW-003
knobs ip=4

0    < write_only psn=0 len=64 a sport=0xABCD
0    > sack cack=0 entropy=0x0000ABCD
0    > ack psn=0

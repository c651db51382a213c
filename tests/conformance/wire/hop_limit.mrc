# The hop limit is not looked at, and is outside the ICRC
requires IP6-006, ICRC-004

0    < write_only psn=0 len=64 a ip.hop=0
0    > sack cack=0 ip.hop=64
0    > ack psn=0 ip.hop=64

# A packet to our SID is taken
requires HOST-001, STACK-002, ICRC-008, EVW-004
knobs srv6

0    < write_only psn=0 len=64 a ev=0x00010203
0    > sack cack=0 entropy=0x00010203
0    > ack psn=0
1us  = memory at=0 len=64 psn=0

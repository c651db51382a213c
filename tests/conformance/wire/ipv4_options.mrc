# IPv4 options are skipped
requires IP4-002, ICRC-005
knobs ip=4

0    < write_only psn=0 len=64 a options ev=0x5678
0    > sack cack=0
0    > ack psn=0
1us  = memory at=0 len=64 psn=0

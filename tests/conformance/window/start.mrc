# The first PSN is the one agreed; the one before it is a duplicate
requires RSP-001, RSP-002
knobs psn=1000

0    < write_only psn=999 len=64
0    > sack cack=999 rcvd=0
0    > ack psn=999 msn=0
1us  = memory at=0 len=64 untouched

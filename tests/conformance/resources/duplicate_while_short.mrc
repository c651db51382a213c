# A duplicate needs no resource: it is SACKed while new packets are refused
requires RSP-007, RSP-002

0    < write_only psn=0 len=64
0    > ack psn=0
1us  ! refuse reason=0x0A
2us  < write_only psn=0 len=64
2us  > sack cack=0
2us  > ack psn=0

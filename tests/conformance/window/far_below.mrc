# A PSN nearly half of the PSN space below is a duplicate: not placed, not counted, acknowledged again
requires RSP-002, GEN-003
knobs psn=0x900000

0    < write_only psn=0x900000 len=64
0    > ack psn=0x900000
1us  < write_only psn=0x110000 at=64 len=64
1us  > sack cack=0x900000 ack_offset=any rcvd=1
1us  > ack psn=0x900000 msn=1
2us  = memory at=64 len=64 untouched
3us  < write_only psn=0x900001 at=128 len=64
3us  > ack psn=0x900001 msn=2

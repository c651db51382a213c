# The BTH of a SACK carries the cumulative PSN, not that of the trigger
requires BTH-010

0    < write_only psn=0 len=64
0    > ack psn=0
1us  < write_only psn=2 len=64 at=128 a
1us  > sack cack=0 bth.psn=0 ack_offset=2 bitmap=0x2 ooo=1

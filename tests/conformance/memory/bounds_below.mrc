# An address below the region is refused
requires VAL-017

0    < write_only psn=0 at=-1 len=64
0    > ack psn=0 syndrome=0x62 msn=any

# A packet that leaves the region by one byte is refused
requires VAL-017

0    < write_only psn=0 at=1048513 len=64
0    > ack psn=0 syndrome=0x62 msn=any
1us  = memory at=1048513 len=63 untouched

# The last byte of the region may be written
requires VAL-017

0    < write_only psn=0 at=1048512 len=64
0    > ack psn=0
1us  = memory at=1048512 len=64 psn=0

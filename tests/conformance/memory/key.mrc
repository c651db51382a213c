# A wrong R_Key is refused with NAK 0x62; not one byte is placed
requires VAL-017, RETH-003

0    < write_only psn=0 len=64 rkey=0x00000000
0    > ack psn=0 syndrome=0x62 msn=any
1us  = state error
1us  = memory at=0 len=64 untouched

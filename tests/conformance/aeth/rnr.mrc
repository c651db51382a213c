# An RNR NAK is no part of MRC: counted and dropped
requires AETH-002

0     ! write len=64
0     > write_only psn=0
10us  < ack psn=0 syndrome=0x20
11us  = count syndrome=1
11us  = state rts
20us  < ack psn=0

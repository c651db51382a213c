# Nor is the PSN sequence error
requires AETH-003

0     ! write len=64
0     > write_only psn=0
10us  < ack psn=0 syndrome=0x60
11us  = count syndrome=1
11us  = state rts
20us  < ack psn=0

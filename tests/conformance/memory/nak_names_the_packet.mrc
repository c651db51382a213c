# A NAK carries the PSN of the packet in error, also above a hole
requires BTH-015, VAL-017, VAL-015

0    < write_only psn=5 len=64 rkey=0
0    > ack psn=5 syndrome=0x62 msn=0

# The end of a message is acknowledged though nobody asked
requires ACK-001, AETH-001

0    < write_only psn=0 len=64
0    > ack psn=0 syndrome=0x1F msn=1

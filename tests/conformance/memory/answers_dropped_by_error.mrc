# The failing packet's own SACK is not sent, only the NAK
requires INV-004, VAL-015

0    < write_only psn=0 len=64 a rkey=0
0    > ack psn=0 syndrome=0x62 msn=any
1us  = count tx_sack=0

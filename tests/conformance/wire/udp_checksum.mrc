# A UDP checksum is not verified, and sent as zero
requires UDP-003, ICRC-006

0    < write_only psn=0 len=64 a udp.checksum=0xBEEF
0    > sack cack=0 udp.checksum=0
0    > ack psn=0 udp.checksum=0

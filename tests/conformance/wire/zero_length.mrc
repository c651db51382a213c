# A write of zero bytes is executed, whatever its address and key
requires LEN-006, LEN-007

0    < write_only psn=0 len=0 a va=0xFFFFFFFFFFFFFFFF rkey=0xFFFFFFFF dmalen=0
0    > sack cack=0
0    > ack psn=0 msn=1

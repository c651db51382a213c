# A timestamp of another format counts as none
requires TSETH-002

0    < write_only psn=0 len=64 a stamp=0x7777 ftype=2
0    > sack cack=0 stamp=0
0    > ack psn=0

# A packet inside a message that asks is acknowledged too
requires ACK-001

0    < write_first psn=0 len=1024 dmalen=4096 a
0    > sack cack=0
0    > ack psn=0 msn=0

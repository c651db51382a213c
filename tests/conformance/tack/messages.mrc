# The message number counts completed messages
requires AETH-008, ACK-001

0    < write_only psn=0 len=64
0    > ack psn=0 msn=1
1us  < write_only psn=1 len=64
1us  > ack psn=1 msn=2
2us  < write_first psn=2 len=1024 dmalen=1028 a
2us  > sack cack=2
2us  > ack psn=2 msn=2
3us  < write_last psn=3 at=1024 len=4 dmalen=1028
3us  > ack psn=3 msn=3

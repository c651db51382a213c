# Each duplicate at or below the cumulative PSN repeats the Transport ACK of now
requires ACK-002

0    < write_only psn=0 len=64
0    > ack psn=0
1us  < write_only psn=1 len=64
1us  > ack psn=1 msn=2
2us  < write_only psn=0 len=64 rtx
2us  > sack cack=1 rtx=1
2us  > ack psn=1 msn=2

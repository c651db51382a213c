# A duplicate below ePSN is SACKed, acknowledged again and not placed
requires SACK-006, RSP-002, ACK-002

0    < write_only psn=0 len=64
0    > ack psn=0
1us  < write_only psn=0 len=64 fill=99
1us  > sack cack=0
1us  > ack psn=0
2us  = memory at=0 len=64 psn=0
2us  = count duplicate=1

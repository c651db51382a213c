# An immediate weighs four bytes more
requires LEN-008, RBYT-001

0    ! recv id=1
0    < write_only_imm psn=0 len=100 imm=1
0    > ack psn=0
0    = done recv id=1 imm=1 len=100
1us  < write_only psn=1 len=64 a
1us  > sack cack=1 rcvd=2
1us  > ack psn=1 msn=2

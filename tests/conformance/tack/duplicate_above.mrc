# A duplicate above a hole repeats none
requires ACK-003, RSP-003

0    < write_only psn=1 len=64
1us  < write_only psn=1 len=64 rtx
1us  > sack cack=0xFFFFFF bitmap=0x2 ooo=1 rtx=1
2us  = count tx_ack=0

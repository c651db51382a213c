# Where one hole closes and another is left, the Transport ACK covers what lies before the second one; a repeated one as well
requires ACK-002, ACK-003, BTH-015

0    < write_only psn=1 at=64 len=64
1us  < write_only psn=3 at=192 len=64
2us  < write_only psn=0 len=64
2us  > ack psn=1 msn=2
3us  < write_only psn=1 at=64 len=64
3us  > ack psn=1 msn=2
3us  > sack cack=1 bitmap=0x2 ooo=1
4us  < write_only psn=2 at=128 len=64
4us  > ack psn=3 msn=4

# No Transport ACK passes a hole; when it closes one covers all
requires ACK-003, BTH-015

0    < write_only psn=1 at=64 len=64
1us  < write_only psn=2 at=128 len=64
2us  < write_only psn=0 len=64
2us  > ack psn=2 msn=3

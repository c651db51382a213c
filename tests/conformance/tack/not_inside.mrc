# A packet inside a message that does not ask is not acknowledged; the end of the message is
requires ACK-001

0    < write_first psn=0 len=1024 dmalen=2052
1us  < write_middle psn=1 at=1024 len=1024 dmalen=2052
2us  < write_last psn=2 at=2048 len=4 dmalen=2052
2us  > ack psn=2 msn=1

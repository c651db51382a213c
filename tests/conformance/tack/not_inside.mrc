# A packet inside a message that does not ask is not
requires ACK-001

0    < write_first psn=0 len=1024 dmalen=4096
1us  < write_middle psn=1 at=1024 len=1024 dmalen=4096
2us  = count tx_ack=0

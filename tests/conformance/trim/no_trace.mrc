# A trimmed packet leaves no trace: the real one is new, and bytes are counted once
requires TRIM-006, INV-003

0    < write_first psn=0 len=1024 dmalen=2048 trim=24
0    > nack nack_psn=0 reason=0x01
1us  < write_last psn=1 at=1024 len=1024 dmalen=2048 a
1us  > sack cack=0xFFFFFF bitmap=0x2 ooo=1 rcvd=5
2us  < write_first psn=0 len=1024 dmalen=2048 rtx
2us  > sack cack=1 rtx=1 rcvd=9
2us  > ack psn=1 msn=1

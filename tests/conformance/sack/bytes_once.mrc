# Bytes are counted by nominal size, once, and rounded up to 256
requires RBYT-001, CCS-004, LEN-008
knobs mtu=1024

0    < write_first psn=0 len=1024 dmalen=4096
1us  < write_first psn=0 len=1024 dmalen=4096
1us  > sack cack=0 rcvd=5
1us  > ack psn=0 msn=0
2us  < write_middle psn=1 at=1024 len=1024 dmalen=4096 rtx
2us  > sack cack=1 rtx=1 rcvd=9

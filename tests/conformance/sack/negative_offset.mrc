# The offset of a duplicate below is negative
requires SETH-005, SACK-006
knobs mtu=256

0    < write_first psn=0 len=256 dmalen=4096
1us  < write_middle psn=1..2 at=256 len=256 dmalen=4096
2us  < write_first psn=0 len=256 dmalen=4096
2us  > sack cack=2 ack_offset=-2
2us  > ack psn=2 msn=0

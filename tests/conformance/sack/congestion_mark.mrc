# A CE mark draws a SACK that says skip once
requires SACK-003, MFLD-001

0    < write_first psn=0 len=1024 dmalen=4096 ce ev=0x00070042
0    > sack cack=0 m=1 entropy=0x00070042
1us  < write_middle psn=1 at=1024 len=1024 dmalen=4096 ev=0x00070042

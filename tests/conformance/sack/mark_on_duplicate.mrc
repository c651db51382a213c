# A duplicate that arrives with CE says skip once, below the cumulative PSN and above it
requires SACK-003, SACK-006, MFLD-001

0    < write_only psn=0 len=64 ev=0x00070042
0    > ack psn=0
1us  < write_only psn=0 len=64 ce ev=0x00080043
1us  > sack cack=0 m=1 entropy=0x00080043
1us  > ack psn=0
2us  < write_middle psn=2 at=1024 len=1024 dmalen=4096
3us  < write_middle psn=2 at=1024 len=1024 dmalen=4096 ce ev=0x00090044
3us  > sack cack=0 m=1 entropy=0x00090044 bitmap=0x2 ooo=1

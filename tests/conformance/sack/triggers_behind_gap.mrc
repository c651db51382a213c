# Behind a gap, too, a mark, a request for an acknowledgement and a retransmission draw a SACK each, and nothing else does
requires SACK-002, SACK-003, SACK-004, MFLD-001

0    < write_middle psn=1 at=1024 len=1024 dmalen=16384
1us  < write_middle psn=2 at=2048 len=1024 dmalen=16384 ce ev=0x00070042
1us  > sack cack=0xFFFFFF m=1 entropy=0x00070042 sack_offset=1 bitmap=0x6 ooo=2
2us  < write_middle psn=3 at=3072 len=1024 dmalen=16384
3us  < write_middle psn=4 at=4096 len=1024 dmalen=16384 a
3us  > sack cack=0xFFFFFF sack_offset=1 bitmap=0x1E ooo=4
4us  < write_middle psn=5 at=5120 len=1024 dmalen=16384
5us  < write_middle psn=6 at=6144 len=1024 dmalen=16384 rtx
5us  > sack cack=0xFFFFFF rtx=1 sack_offset=1 bitmap=0x7E ooo=6
6us  < write_middle psn=7 at=7168 len=1024 dmalen=16384

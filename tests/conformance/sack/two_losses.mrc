# Two losses among twelve packets: the worked example of the reference
requires SACK-008, SACK-012, SACK-013, SETH-008, CCS-004
knobs mtu=256 sack_threshold=16384 size_overhead=40

0    < write_first psn=0 len=256 dmalen=3072
0    < write_middle psn=1..4 at=256 len=256 dmalen=3072
0    < write_middle psn=6..7 at=1536 len=256 dmalen=3072
0    < write_middle psn=9..10 at=2304 len=256 dmalen=3072
1us  < write_last psn=11 at=2816 len=256 dmalen=3072 a
1us  > sack cack=4 bitmap=0x76 ooo=5 rcvd=14

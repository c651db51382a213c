# By default 16384 bytes trigger a SACK
requires SACK-001
knobs mtu=4096 sack_threshold=16384 size_overhead=40

0    < write_first psn=0 len=4096 dmalen=40960
1us  < write_middle psn=1 at=4096 len=4096 dmalen=40960
2us  < write_middle psn=2 at=8192 len=4096 dmalen=40960
3us  < write_middle psn=3 at=12288 len=4096 dmalen=40960
3us  > sack cack=3 rcvd=66

# Received bytes add up to a SACK; what comes before the threshold is silent
requires SACK-001, RSP-008
knobs mtu=1024 sack_threshold=4096

0    < write_first psn=0 len=1024 dmalen=8192
1us  < write_middle psn=1 at=1024 len=1024 dmalen=8192
2us  < write_middle psn=2 at=2048 len=1024 dmalen=8192
3us  < write_middle psn=3 at=3072 len=1024 dmalen=8192
3us  > sack cack=3
4us  < write_middle psn=4 at=4096 len=1024 dmalen=8192

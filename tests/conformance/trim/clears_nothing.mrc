# The SACK for a trimmed copy leaves the SACK trigger count as it was
requires TRIM-006
knobs mtu=1024 sack_threshold=4096

0    < write_first psn=0 len=1024 dmalen=8192
1us  < write_middle psn=1 len=1024 dmalen=8192
2us  < write_middle psn=1 len=1024 dmalen=8192 trim=24
2us  > sack cack=1
3us  < write_middle psn=2 len=1024 dmalen=8192
4us  < write_middle psn=3 len=1024 dmalen=8192
4us  > sack cack=3

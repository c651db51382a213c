# Trimmed packets do not add to the SACK trigger count
requires TRIM-006
knobs mtu=1024 sack_threshold=4096

0    < write_first psn=0 len=1024 dmalen=8192
1us  < write_middle psn=1 len=1024 dmalen=8192 trim=24
1us  > nack nack_psn=1 reason=0x01
2us  < write_middle psn=1 len=1024 dmalen=8192 trim=24
2us  > nack nack_psn=1 reason=0x01
3us  < write_middle psn=2 len=1024 dmalen=8192
4us  < write_middle psn=3 len=1024 dmalen=8192
5us  < write_middle psn=4 len=1024 dmalen=8192
5us  > sack cack=0 bitmap=0xE ooo=3

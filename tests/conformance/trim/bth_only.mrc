# A whole BTH is enough
requires TRIM-004
knobs trim_keeps_tseth=0

0    < write_first psn=3 len=1024 dmalen=4096 trim=12
0    > nack nack_psn=3 reason=0x01 stamp=0

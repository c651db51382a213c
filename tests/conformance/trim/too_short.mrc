# By the knob a trimmed packet that ends before its timestamp header is dropped
requires TRIM-004
knobs trim_keeps_tseth=1

0    < write_first psn=3 len=1024 dmalen=4096 trim=12
0    < write_first psn=3 len=1024 dmalen=4096 trim=16
1us  < write_first psn=3 len=1024 dmalen=4096 trim=20
1us  > nack nack_psn=3 reason=0x01

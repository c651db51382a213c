# A trimmed packet cut before its timestamp is answered with timestamp 0
requires TRIM-004
knobs trim_keeps_tseth=0

0    < write_only psn=0 len=1024 trim=16
0    > nack nack_psn=0 reason=0x01 stamp=0

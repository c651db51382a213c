# A CE mark on a trimmed packet draws no SACK
requires TRIM-009

0    < write_only psn=0 len=1024 trim=24 ip.ecn=3
0    > nack nack_psn=0 reason=0x01

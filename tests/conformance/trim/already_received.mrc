# A trimmed copy of a packet that arrived draws a SACK
requires TRIM-007

0    < write_first psn=0 len=1024 dmalen=4096
1us  < write_first psn=0 len=1024 dmalen=4096 trim=24
1us  > sack cack=0

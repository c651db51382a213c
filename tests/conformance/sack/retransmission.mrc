# A retransmission is SACKed at once and the SACK says so
requires SACK-004, BTH-011

0    < write_first psn=0 len=1024 dmalen=4096 rtx
0    > sack cack=0 rtx=1

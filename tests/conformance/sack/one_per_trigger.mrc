# A packet with three reasons for a SACK draws one
requires SACK-007
knobs mtu=256 sack_threshold=1024

0    < write_first psn=0 len=256 dmalen=4096 ce rtx
0    > sack cack=0 m=1 rtx=1
1us  = count tx_sack=1

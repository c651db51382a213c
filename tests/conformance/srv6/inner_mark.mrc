# CE in the inner header counts
requires SRV6-006, IP6-004
knobs srv6

0    < write_first psn=0 len=1024 dmalen=4096 ip.ecn=3
0    > sack cack=0 m=1

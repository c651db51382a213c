# The IPv4 type of service is outside the ICRC: a marked, re-classed packet is taken
requires ICRC-005
knobs ip=4

0    < write_only psn=0 len=64 ev=0x11 ce ip.dscp=63 ip.ttl=1
0    > sack cack=0 m=1
0    > ack psn=0

# Over IPv4 a SACK leaves with DF, identification 0, TTL 64, no options and a right checksum
requires IP4-001
knobs ip=4

0    < write_only psn=0 len=64 a ev=0x5678
0    > sack cack=0 ip.ihl=5 ip.id=0 ip.flags=2 ip.fragment=0 ip.ttl=64
0    > ack psn=0

# An 802.1Q tag is stepped over; the answer has none
requires ETH-002, ETH-001

0    < write_only psn=0 len=64 a vlan vlan.tci=0x2005
0    > sack cack=0
0    > ack psn=0

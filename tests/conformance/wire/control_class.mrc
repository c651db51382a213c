# Acknowledgements travel in the control class, not ECN-capable
requires DSCP-002, IP6-003, DSCP-005, ACK-005
knobs ctl_ect=0 dscp_control=46

0    < write_only psn=0 len=64 a
0    > sack cack=0 ip.dscp=46 ip.ecn=0
0    > ack psn=0 ip.dscp=46 ip.ecn=0

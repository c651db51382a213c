# Control packets take an SRv6 path too, in the control class in both headers
requires SRV6-002, DSCP-002, REV-001
knobs srv6 ctl_ect=0 dscp_control=46

0    < write_only psn=0 len=64 a
0    > sack cack=0 outer.dscp=46 outer.ecn=0
0    > ack psn=0 outer.dscp=46 outer.ecn=0

# The outer DSCP says that a packet was trimmed
requires SRV6-006, TRIM-001
knobs srv6 dscp_trimmed=12

0    < write_only psn=0 len=1024 trim=24 outer.dscp=12
0    > nack nack_psn=0 reason=0x01

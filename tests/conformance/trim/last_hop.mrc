# A packet trimmed at the last hop draws TRIMMED_LASTHOP
requires TRIM-001, TRIM-005
knobs dscp_trimmed_lasthop=16

0    < write_only psn=0 len=1024 trim=24 ip.dscp=16
0    > nack nack_psn=0 reason=0x02

# Without trim NACKs agreed, a trimmed packet is dropped and counted
requires TRIM-005
knobs trim_nack=off

0    < write_only psn=0 len=1024 trim=24 ip.dscp=12
1us  = count trimmed=1

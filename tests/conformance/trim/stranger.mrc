# A trimmed packet from a stranger draws nothing
requires TRIM-010, VAL-013

0    < write_only psn=0 len=1024 trim=24 ip.dscp=12 ip.src=0x20010db8000100000000000000000063
1us  = count peer=1

# A trimmed packet from a stranger draws nothing
requires TRIM-010, VAL-013

0    < write_only psn=0 len=1024 trim=24 ip.src=0x20010db8000100000000000000000063
1us  = count peer=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

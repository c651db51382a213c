# Without trim NACKs agreed, a trimmed packet is dropped and counted
requires TRIM-005
knobs trim_nack=off

0    < write_only psn=0 len=1024 trim=24
1us  = count trimmed=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

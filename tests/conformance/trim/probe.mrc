# A trimmed packet that is no write is dropped
requires TRIM-008
knobs dscp_trimmed=12

0    < probe probe_id=1 ip.dscp=12
1us  = count opcode=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

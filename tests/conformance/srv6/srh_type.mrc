# Another routing type is refused
requires SRH-001, VAL-003
knobs srv6

0    < write_only psn=0 len=64 a srh=0 srh.type=3
1us  = count l3_dst=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

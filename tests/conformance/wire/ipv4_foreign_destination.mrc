# An IPv4 packet for somebody else is dropped
requires IP6-007, VAL-003
knobs ip=4

0    < write_only psn=0 len=64 a ip.dst=0xC0000263
1us  = count l3_dst=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

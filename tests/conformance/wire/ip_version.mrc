# An IPv6 EtherType with IP version 5 is refused
requires VAL-002, IP6-001

0    < write_only psn=0 len=64 a ip.version=5
1us  = count l3_bad=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

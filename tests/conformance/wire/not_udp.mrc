# A protocol other than UDP is refused
requires VAL-005, IP6-001

0    < write_only psn=0 len=64 a ip.nh=6
1us  = count udp_bad=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

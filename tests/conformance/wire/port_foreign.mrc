# Another UDP port is not MRC's
requires VAL-005, UDP-002

0    < write_only psn=0 len=64 a dport=4792
1us  = count udp_bad=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# A UDP length below 24 is refused
requires UDP-004, VAL-005

0    < write_only psn=0 len=64 a udplen=23
1us  = count udp_bad=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

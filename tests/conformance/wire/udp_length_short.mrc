# A UDP length below 24 is refused
requires UDP-004, VAL-005

0    < write_only psn=0 len=64 a udplen=23
1us  = count udp_bad=1

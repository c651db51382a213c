# Another UDP port is not MRC's
requires VAL-005, UDP-002

0    < write_only psn=0 len=64 a dport=4792
1us  = count udp_bad=1

# A UDP length beyond the IP payload is refused
requires UDP-004, VAL-005

0    < write_only psn=0 len=64 a udplen=113
1us  = count udp_bad=1
1us  = memory at=0 len=64 untouched

# The length fields of a trimmed packet are ignored
requires TRIM-002

0    < write_only psn=0 len=1024 trim=24 udplen=9000 ip.plen=9000
0    > nack nack_psn=0 reason=0x01

# Length fields that a switch shortened are as good
requires TRIM-002

0    < write_only psn=0 len=1024 trim=24 udplen=32 ip.plen=32
0    > nack nack_psn=0 reason=0x01

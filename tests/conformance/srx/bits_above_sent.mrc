# Bits above the highest PSN sent are ignored
requires SRX-004
knobs mtu=256 timeout=9 probe_limit=80000 base_rtt=10000000

0         ! write len=64
0         > write_only psn=0
80us      < sack cack=0xFFFFFF ack_offset=0 bitmap=0xFFFFFFFFFFFFFFFC rcvd=0
88us      ! write len=64
88us      > write_only psn=1 msn=1
524.288us > write_only psn=0 rtx=1
524.288us > probe
528us     < ack psn=1

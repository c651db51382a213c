# A packet for another host is dropped
requires VAL-003, IP6-007

0    < write_only psn=0 len=64 a ip.dst=0x20010db8000100000000000000000063
1us  = count l3_dst=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

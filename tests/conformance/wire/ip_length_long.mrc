# An IP payload length beyond what arrived is refused
requires VAL-004, IP6-001

0    < write_only psn=0 len=64 a ip.plen=113
1us  = count l3_len=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# A pad larger than the payload is refused
requires VAL-009, BTH-004

0    < write_only psn=0 len=0 pad=3 a
1us  = count short=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# Two limited members may not talk
requires VAL-012
knobs pkey=0x7FFF

0    < write_only psn=0 len=64 a
1us  = count pkey=1
9us  < probe probe_id=9 pkey=0xFFFF
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

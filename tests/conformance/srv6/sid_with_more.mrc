# A destination that goes on behind our SID is not ours
requires HOST-002, VAL-003
knobs srv6

0    < write_only psn=0 len=64 a outer.dst=0xfcbbbb00300b12340000000000000000
1us  = count l3_dst=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# The low half of the EV is the source port, the high half the flow label
requires EVW-002, EVW-003, IP6-005
knobs ev_high_half_in_sport=0

0    < write_only psn=0 len=64 a sport=0x1234 ip.label=0xABCD
0    > sack cack=0 entropy=0xABCD1234
0    > ack psn=0

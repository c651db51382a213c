# The high half of an EV is read from the inner flow label, whatever the outer one says
requires SRV6-003, EVW-004
knobs srv6 ev_in_outer_label=0

0    < write_only psn=0 len=64 a ev=0x00010203 outer.label=0x0777
0    > sack cack=0 entropy=0x00010203
0    > ack psn=0

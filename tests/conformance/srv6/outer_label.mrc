# By the knob it is read from the outer flow label
requires SRV6-003
knobs srv6 ev_in_outer_label=1

0    < write_only psn=0 len=64 a ev=0x00010203 ip.label=0x0777
0    > sack cack=0 entropy=0x00010203
0    > ack psn=0

# The knob ctl_ect makes control packets ECN-capable
requires IP6-003
knobs ctl_ect

0    < write_only psn=0 len=64 a
0    > sack cack=0 ip.ecn=2
0    > ack psn=0 ip.ecn=2

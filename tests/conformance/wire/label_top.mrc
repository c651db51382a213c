# The top four bits of the flow label are ignored and not echoed
requires IP6-005, ICRC-004

0    < write_only psn=0 len=64 a ip.label_top=0xF ev=0x8001FFFF
0    > sack cack=0 entropy=0x8001FFFF
0    > ack psn=0

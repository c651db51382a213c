# The knob ev_high_half_in_sport swaps the halves for echoes too
requires EVW-002
knobs ev_high_half_in_sport

0    < write_only psn=0 len=64 a sport=0x1234 ip.label=0xABCD
0    > sack cack=0 entropy=0x1234ABCD
0    > ack psn=0

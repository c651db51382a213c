# Acknowledgements mean nothing before RTS
requires CTL-002, VAL-014
knobs state=rtr

0    < sack cack=0xFFFFFF
1us  < ack psn=0xFFFFFF
2us  = count state=2
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

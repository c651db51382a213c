# The knob oor_silent drops it without a word
requires RSP-004
knobs mpr=1 oor_silent

0    < write_middle psn=128 at=0 len=1024 dmalen=4096
1us  = count psn_oor_window=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# A trimmed packet above the window is dropped
requires TRIM-008
knobs mpr=1

0    < write_only psn=128 len=1024 trim=24
1us  = count trimmed=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

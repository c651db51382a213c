# A trimmed packet cut inside BTH is dropped
requires VAL-006, TRIM-004
knobs trim_keeps_tseth=0

0    < write_only psn=0 len=64 trim=11
1us  = count short=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

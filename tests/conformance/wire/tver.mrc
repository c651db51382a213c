# A transport version other than 0 is dropped
requires VAL-008, BTH-005

0    < write_only psn=0 len=64 a tver=1
1us  = count tver=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

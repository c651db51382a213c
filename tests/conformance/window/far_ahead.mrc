# A PSN more than 2^22 ahead is dropped without a NACK
requires RSP-005

0    < write_only psn=0x400000 len=64
1us  = count psn_oor_window=1
1us  = count tx_nack=0
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# A trimmed packet with the last PSN of the window draws a NACK
requires TRIM-005, TRIM-008
knobs mpr=1

0    < write_only psn=127 len=1024 trim=24
     > nack nack_psn=127 reason=0x01
1us  < write_only psn=128 len=1024 trim=24
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

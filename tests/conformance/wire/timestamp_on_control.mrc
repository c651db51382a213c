# The ts bit means nothing on other opcodes than writes
requires OPC-002, BTH-009

0    < probe probe_id=4 bth.ts=1 stamp=0x4444
0    > sack cack=0xFFFFFF pr=1 ack_offset=4 stamp=0x4444

# Reserved fields of a probe change nothing, and none comes back
requires GEN-002, BTH-013

0    < probe psn=77 probe_id=3 type=0xF next=0x1F res1=0x7FFF vendor=0xFF res2=0xFFFF ts_res=0x7FF spdcid=1 dpdcid=2
0    > sack cack=0xFFFFFF pr=1 ack_offset=3

# Traffic class, flow label, hop limit, UDP checksum and BTH byte 4 may change on the way
requires ICRC-004, ICRC-006, ICRC-007

0    < write_only psn=0 len=64 a ip.dscp=63 ip.label_top=9 ip.label=0x5A5A ip.hop=3 udp.checksum=0x1234 var_res=0xC0
0    > sack cack=0
0    > ack psn=0

# A write like the one before it is not ours where its outer destination is another host's
requires HOST-002, VAL-001, VAL-003
knobs srv6

0    < write_only psn=0 len=64
0    > ack psn=0
1us  < write_only psn=1 len=64
1us  > ack psn=1
2us  < write_only psn=2 len=64 outer.dst=0xfcbbbb00300c00000000000000000000
3us  = count l3_dst=1
9us  < probe probe_id=9
9us  > sack cack=1 pr=1 ack_offset=9 rcvd=any

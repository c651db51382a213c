# ECN 01 and 10 are no marks
requires IP6-004, SACK-003
knobs mtu=256

0    < write_first psn=0 len=256 dmalen=4096 ip.ecn=1
1us  < write_middle psn=1 at=256 len=256 dmalen=4096 ip.ecn=2
2us  < write_middle psn=2 at=512 len=256 dmalen=4096 ip.ecn=0
3us  = count rx_data=3
9us  < probe probe_id=9
9us  > sack cack=2 pr=1 ack_offset=9

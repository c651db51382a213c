# A probe's answer shows the present gaps
requires SACK-005, SACK-008
knobs mtu=256

0    < write_middle psn=2 len=256 dmalen=4096
1us  < probe probe_id=0xFFFF
1us  > sack cack=0xFFFFFF pr=1 ack_offset=0xFFFF bitmap=0x4 ooo=1

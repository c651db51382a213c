# A bitmap of the newest 64 PSNs has the highest one as its last bit
requires SACK-011
knobs mtu=256 psn=100 bitmap_reach=63

0    < write_middle psn=164 len=256 dmalen=90000 a
0    > sack cack=99 sack_offset=1 ooo=1
1us  < probe probe_id=1
1us  > sack cack=99 sack_offset=2 bitmap=0x8000000000000000 ooo=1

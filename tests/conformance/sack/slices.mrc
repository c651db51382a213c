# A wide window is shown in slices that walk upward and start again
requires SACK-011, SETH-008
knobs mtu=256 psn=100 bitmap_reach=63

0    < write_middle psn=300 len=256 dmalen=90000 a
0    > sack cack=99 sack_offset=1 ooo=1
repeat n=1..2
    {n}us  < probe probe_id={n}
    {n}us  > sack cack=99 sack_offset={n*64+1} ooo=1
end
3us  < probe probe_id=3
3us  > sack cack=99 sack_offset=138 bitmap=0x8000000000000000 ooo=1
4us  < probe probe_id=4
4us  > sack cack=99 sack_offset=1 ooo=1

# Without the knob a hundred marks stay skip once
requires MFLD-002
knobs mtu=256 always_skip_after=0

0    < write_first psn=0 len=256 dmalen=4096 ce ev=7
0    > sack cack=0 m=1
1us  < write_middle psn=1 at=256 len=256 dmalen=4096 ce ev=7
1us  > sack cack=1 m=1
2us  < write_middle psn=2 at=512 len=256 dmalen=4096 ce ev=7
2us  > sack cack=2 m=1
3us  < write_middle psn=3 at=768 len=256 dmalen=4096 ce ev=7
3us  > sack cack=3 m=1

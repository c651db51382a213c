# The knob always_skip_after turns the second mark in a row on one EV into ALWAYS_SKIP
requires MFLD-002, SETH-002
knobs mtu=256 always_skip_after=2

0    < write_first psn=0 len=256 dmalen=4096 ce ev=7
0    > sack cack=0 m=1
1us  < write_middle psn=1 at=256 len=256 dmalen=4096 ce ev=7
1us  > sack cack=1 m=2

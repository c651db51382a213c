# Two limited members may not talk
requires VAL-012
knobs pkey=0x7FFF

0    < write_only psn=0 len=64 a
1us  = count pkey=1

# A foreign partition is dropped
requires VAL-012
knobs pkey=0xFFFF

0    < write_only psn=0 len=64 a pkey=0x8001
1us  = count pkey=1
1us  = memory at=0 len=64 untouched

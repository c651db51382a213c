# The source is checked before the state: what a stranger sends to a QP in ERROR counts as foreign
requires VAL-013, VAL-014, IP6-007
knobs state=error

0    < write_only psn=0 len=64 a ip.src=0x20010db8000100000000000000000063
1us  = count peer=1
1us  = count state=0
2us  < write_only psn=0 len=64 a
3us  = count peer=1
3us  = count state=1

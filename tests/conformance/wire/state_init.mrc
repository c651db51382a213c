# A QP in INIT takes no write
requires VAL-014, QP-002
knobs state=init

0    < write_only psn=0 len=64 a
1us  = count state=1
1us  = memory at=0 len=64 untouched

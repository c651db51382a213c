# A QP in ERROR takes nothing and says nothing
requires ERR-001, VAL-014, ERR-004
knobs state=error

0    < write_only psn=0 len=64 a
1us  < probe probe_id=1
2us  < sack cack=0xFFFFFF
3us  = count state=3
3us  = memory at=0 len=64 untouched

# A pad larger than the payload is refused
requires VAL-009, BTH-004

0    < write_only psn=0 len=0 pad=3 a
1us  = count short=1

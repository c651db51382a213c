# A SACK from far behind the window is dropped
requires SRX-001, CTL-001
knobs sq_psn=0x800000

0     ! write len=64
0     > write_only psn=0x800000
10us  < sack cack=0x3FFFFF
11us  = count stale_psn=1
12us  < ack psn=0x800000

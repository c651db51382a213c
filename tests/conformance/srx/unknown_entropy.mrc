# A SACK that echoes an EV nobody used still acknowledges
requires EV-018
knobs timeout=6

0     ! write len=64
0     > write_only psn=0
10us  < sack cack=0 rcvd=1 m=2 ev=1 entropy=0x77777777
70us  < ack psn=0
70us  = count ev_assumed_bad=0

# A verdict of 3 is none: the EV stays in use
requires SETH-003, EV-001
knobs evs=1 timeout=6

0     ! write len=64
0     > write_only psn=0 ev=0
10us  < sack cack=0 rcvd=1 m=3
11us  ! write len=64
11us  > write_only psn=1 msn=1 ev=0
20us  < ack psn=1
20us  = count ev_skipped=0

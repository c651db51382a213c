# A reported window of zero says nothing
requires DMPR-003, SETH-009
knobs mtu=256 mpr_tx=1 dynamic_mpr

0     ! write len=64
0     > write_only psn=0
10us  < sack cack=0 rcvd=1 mpr=0
11us  ! write len=64
11us  > write_only psn=1 msn=1
20us  < ack psn=1

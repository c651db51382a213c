# With Dynamic MPR a reported window takes effect: new packets wait while it is smaller
requires DMPR-004, SETH-009
knobs mtu=256 mpr_tx=2 dynamic_mpr

0     ! write len=32768
0     > write_first psn=0 len=256 dmalen=32768
0     > write_middle psn=1..126 from=256 at=256 len=256 dmalen=32768
0     > write_last psn=127 from=32512 at=32512 len=256 dmalen=32768
10us  < sack cack=0xFFFFFF ack_offset=5 bitmap=0x10 rcvd=2 mpr=1
11us  ! write len=64
20us  < sack cack=0 rcvd=4 mpr=1
20us  > write_only psn=128 msn=1
30us  < ack psn=128

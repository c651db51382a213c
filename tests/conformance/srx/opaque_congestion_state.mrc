# A SACK of another congestion type still acknowledges
requires SETH-010
knobs timeout=6

0     ! write len=64
0     > write_only psn=0
10us  < sack cack=0 rcvd=1 cc_type=5
70us  < ack psn=0

# With Dynamic MPR each SACK carries the window in units of 128
requires SACK-010, DMPR-001, SETH-009
knobs mpr=4 dynamic_mpr

0    < write_only psn=0 len=64 a
0    > sack cack=0 mpr=4
0    > ack psn=0
1us  ! mpr units=2
2us  < write_only psn=1 len=64 a
2us  > sack cack=1 mpr=2
2us  > ack psn=1 msn=2

# Each SACK tells the window that is offered now, not how far packets are accepted because a wider one was offered before
requires DMPR-001, SETH-009
knobs mpr=4 dynamic_mpr

0    < write_only psn=0 len=64 a
0    > sack cack=0 mpr=4
0    > ack psn=0
1us  ! mpr units=1
2us  < write_only psn=1 len=64 a
2us  > sack cack=1 mpr=1
2us  > ack psn=1

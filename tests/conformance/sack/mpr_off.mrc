# Without Dynamic MPR the mpr byte is zero
requires SACK-010, CAP-003
knobs mpr=4

0    < write_only psn=0 len=64 a
0    > sack cack=0 mpr=0
0    > ack psn=0

# No receiver penalty by default, and the window may be restored
requires CCS-003

0    < write_only psn=0 len=64 a
0    > sack cack=0 pen=0 restore=1 cc_type=0 cc_flags=0
0    > ack psn=0

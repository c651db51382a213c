# A packet that asks for an acknowledgement is SACKed at once
requires SACK-002

0    < write_only psn=0 len=64 a
0    > sack cack=0
0    > ack psn=0

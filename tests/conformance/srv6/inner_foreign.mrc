# The inner destination must be the QP's, though the SID is ours
requires HOST-003
knobs srv6

0    < write_only psn=0 len=64 a ip.dst=0x20010db8000100000000000000000063
1us  = count peer=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

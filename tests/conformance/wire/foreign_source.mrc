# A packet whose source is not the QP's peer is dropped
requires VAL-013, IP6-007

0    < write_only psn=0 len=64 a ip.src=0x20010db8000100000000000000000063
1us  = count peer=1
1us  = memory at=0 len=64 untouched

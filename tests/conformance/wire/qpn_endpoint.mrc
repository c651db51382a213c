# A write to QP 2 is dropped: that number is for endpoint operations
requires VAL-011

0    < write_only psn=0 len=64 a dqp=2
1us  = count qpn=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

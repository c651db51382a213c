# An RDMA read request of the reliable connection is not served
requires MODEL-001, OPC-001

0    < write_only psn=0 len=0 a opcode=0x0C
1us  = count opcode=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

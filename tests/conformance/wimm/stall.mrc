# At the limit new writes with immediate wait for a Transport ACK
requires SND-006, QP-009
knobs max_wimm=1 complete_on_sack=0

0     ! write len=64 imm=1
0     > write_only_imm psn=0 imm=1
1us   ! write len=64 imm=2
5us   < sack cack=0 rcvd=1
10us  < ack psn=0 msn=1
10us  > write_only_imm psn=1 imm=2 rqmsn=1 meth.msn=1
20us  < ack psn=1 msn=2

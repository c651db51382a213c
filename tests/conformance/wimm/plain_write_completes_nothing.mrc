# A plain write consumes no receive request, whatever its numbers
requires WIMM-008, METH-003

0    ! recv id=1
0    < write_only psn=0 len=64 rqmsn=0xFFFF se
0    > ack psn=0
1us  < write_only_imm psn=1 len=64 imm=2
1us  > ack psn=1 msn=2
1us  = done recv id=1 imm=2

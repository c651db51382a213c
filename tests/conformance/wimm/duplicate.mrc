# A duplicate of a write with immediate delivers nothing again
requires WIMM-004, RSP-010

0    ! recv id=1
0    ! recv id=2
0    < write_only_imm psn=0 len=64 imm=1
0    > ack psn=0
0    = done recv id=1 imm=1
1us  < write_only_imm psn=0 len=64 imm=1 rtx
1us  > sack cack=0 rtx=1
1us  > ack psn=0

# An immediate without payload is delivered
requires LEN-006, WIMM-004

0    ! recv id=1
0    < write_only_imm psn=0 len=0 imm=3 rkey=0 va=0
0    > ack psn=0
0    = done recv id=1 imm=3 len=0

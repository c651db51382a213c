# Wrong message numbers are counted and change nothing
requires WIMM-007, METH-001

0    ! recv id=1
0    ! recv id=2
0    < write_only_imm psn=0 len=64 imm=1 rqmsn=40 meth.msn=7
0    > ack psn=0
0    = done recv id=1 imm=1
1us  < write_only_imm psn=1 len=64 imm=2 rqmsn=39 meth.msn=3
1us  > ack psn=1 msn=2
1us  = done recv id=2 imm=2
2us  = count rqmsn_gaps=1

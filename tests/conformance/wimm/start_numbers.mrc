# The first message numbers are knobs and wrap; a script counts from the first
requires METH-001, METH-002
knobs msn_start=0xFFFF rqmsn_start=0xFFFF

0     ! write len=64 imm=1
0     > write_only_imm psn=0 imm=1 rqmsn=0 meth.msn=0
1us   ! write len=64 imm=2
1us   > write_only_imm psn=1 imm=2 rqmsn=1 meth.msn=1
10us  < ack psn=1

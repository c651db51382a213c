# A posted write with immediate: word, receive-queue number, message number
requires METH-002, METH-001, IMM-001, SEG-004, MODEL-001

0     ! write len=64 imm=0x01020304 id=1 signaled
0     > write_only_imm psn=0 len=64 imm=0x01020304 rqmsn=0 meth.msn=0
1us   ! write len=64
1us   > write_only psn=1 len=64 rqmsn=0 meth.msn=1
2us   ! write len=1028 imm=5
2us   > write_first psn=2 len=1024 dmalen=1028 rqmsn=1 meth.msn=2
2us   > write_last_imm psn=3 from=1024 at=1024 len=4 dmalen=1028 imm=5 rqmsn=1 meth.msn=2
10us  < ack psn=3 msn=3
10us  = done write id=1 status=success

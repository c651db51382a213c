# A long write is cut into packets of one path MTU, each with its own address
requires SEG-001, SEG-003, SEG-004, RETH-001, RETH-002
knobs mtu=1024

0     ! write id=1 len=3000 from=8 at=512 signaled
0     > write_first psn=0 from=8 at=512 len=1024 dmalen=3000
0     > write_middle psn=1 from=1032 at=1536 len=1024 dmalen=3000
0     > write_last psn=2 from=2056 at=2560 len=952 dmalen=3000
10us  < sack cack=2 rcvd=13
10us  < ack psn=2 msn=1
10us  = done write id=1 status=success len=3000

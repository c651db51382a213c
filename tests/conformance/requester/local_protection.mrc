# Memory deregistered under a waiting request: local protection error
requires ERR-003
knobs mtu=1024 window=1112 sack_threshold=1024

0     ! write len=2048 id=1
0     > write_first psn=0 len=1024 dmalen=2048 a=any
1us   ! deregister
10us  < sack cack=0 rcvd=5
10us  = done write id=1 status=local_protection
11us  = state error

# NAK 0x63: remote operation error
requires AETH-006

0     ! write len=64 id=1
0     > write_only psn=0
10us  < ack psn=0 syndrome=0x63
10us  = done write id=1 status=remote_operation
11us  = state error

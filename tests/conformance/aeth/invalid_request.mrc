# NAK 0x61: remote invalid request
requires AETH-004

0     ! write len=64 id=1
0     > write_only psn=0
10us  < ack psn=0 syndrome=0x61
10us  = done write id=1 status=remote_invalid_request
11us  = state error

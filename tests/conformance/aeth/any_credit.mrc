# Any syndrome up to 0x1F acknowledges
requires AETH-001

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < ack psn=0 syndrome=0
10us  = done write id=1 status=success

# A NAK acknowledges nothing below it: what no Transport ACK covered is flushed
requires TACK-005, TACK-006

0     ! write len=64 id=1
0     > write_only psn=0
1us   ! write len=64 id=2 signaled
1us   > write_only psn=1 msn=1
2us   ! write len=64 id=3
2us   > write_only psn=2 msn=2
10us  < ack psn=2 syndrome=0x62
10us  = done write id=1 status=flushed
10us  = done write id=2 status=flushed
10us  = done write id=3 status=remote_access

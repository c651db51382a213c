# Requests complete in posting order, several with one Transport ACK
requires TACK-002, INV-002
knobs base_rtt=1000000

0     ! write len=64 id=1 signaled
0     > write_only psn=0
1us   ! write len=64 id=2 signaled
1us   > write_only psn=1 msn=1
2us   ! write len=64 id=3 signaled
2us   > write_only psn=2 msn=2
10us  < ack psn=1 msn=2
10us  = done write id=1 status=success
10us  = done write id=2 status=success
20us  < ack psn=2 msn=3
20us  = done write id=3 status=success

# A Transport ACK for a PSN never sent is dropped
requires CTL-001

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < ack psn=1
11us  = count stale_psn=1
20us  < ack psn=0
20us  = done write id=1 status=success

# So is a NAK for one
requires CTL-001

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < ack psn=5 syndrome=0x62
11us  = state rts
20us  < ack psn=0
20us  = done write id=1 status=success

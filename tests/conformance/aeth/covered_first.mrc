# What a Transport ACK covered before succeeds
requires TACK-005
knobs base_rtt=1000000

0     ! write len=64 id=1 signaled
0     > write_only psn=0
1us   ! write len=64 id=2
1us   > write_only psn=1 msn=1
10us  < ack psn=0
10us  = done write id=1 status=success
11us  < ack psn=1 syndrome=0x61
11us  = done write id=2 status=remote_invalid_request

# The message number of a Transport ACK is not relied upon
requires AETH-008

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < ack psn=0 msn=0xABCDEF
10us  = done write id=1 status=success

# A Transport ACK inside a message does not complete it
requires TACK-002
knobs mtu=256

0     ! write len=512 id=1 signaled
0     > write_first psn=0 len=256 dmalen=512
0     > write_last psn=1 from=256 at=256 len=256 dmalen=512
10us  < ack psn=0
20us  < ack psn=1
20us  = done write id=1 status=success

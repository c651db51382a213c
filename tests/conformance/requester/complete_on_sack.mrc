# The knob complete_on_sack lets a SACK complete requests, for peers without Transport ACK
requires TACK-003
knobs complete_on_sack

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < sack cack=0 rcvd=1
10us  = done write id=1 status=success

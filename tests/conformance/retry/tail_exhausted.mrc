# A Transport ACK that never comes is a retry of the oldest packet and ends the QP
requires TACK-004, RETRY-003, TACK-003
knobs timeout=6 linear=1 exp=0 base_rtt=1000000 complete_on_sack=0 tail_retry_paced=0

0           ! write len=64 id=1
0           > write_only psn=0
16us        < sack cack=0 rcvd=1
81.536us    > write_only psn=0 rtx=1
147.072us   = done write id=1 status=retry_exceeded

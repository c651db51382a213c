# An answered repeat of the last packet counts as a retry too: a Transport ACK that never comes ends the QP
requires TACK-004, RETRY-003
knobs timeout=9 linear=1 exp=0 base_rtt=10000000 tail_retry_lenient=0 complete_on_sack=0 tail_retry_paced=0

0           ! write len=64 id=1
0           > write_only psn=0
128us       < sack cack=0 rcvd=1
652.288us   > write_only psn=0 rtx=1
720us       < sack cack=0 rtx rcvd=1
1176.576us  = done write id=1 status=retry_exceeded

# A SACK whose bitmap covers what its cumulative PSN does not: without a Transport ACK the last packet is repeated, then the QP ends
requires TACK-004, RETRY-003
knobs timeout=6 linear=1 exp=0 base_rtt=1000000 complete_on_sack=0 tail_retry_lenient=0 tail_retry_paced=0

0          ! write len=64 id=1
0          > write_only psn=0
16us       < sack cack=0xFFFFFF ack_offset=1 sack_offset=1 bitmap=1 rcvd=1
81.536us   > write_only psn=0 rtx=1 a=1
90us       < sack cack=0xFFFFFF ack_offset=1 sack_offset=1 bitmap=1 rtx rcvd=1
147.072us  = done write id=1 status=retry_exceeded

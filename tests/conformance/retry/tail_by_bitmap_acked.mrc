# A repeat of a packet that only a bitmap covers completes with its Transport ACK
requires TACK-004, TACK-001
knobs timeout=6 base_rtt=1000000 complete_on_sack=0

0         ! write len=64 id=1 signaled
0         > write_only psn=0
16us      < sack cack=0xFFFFFF ack_offset=1 sack_offset=1 bitmap=1 rcvd=1
81.536us  > write_only psn=0 rtx=1 a=1
90us      < sack cack=0 rtx rcvd=1
90us      < ack psn=0
90us      = done write id=1 status=success

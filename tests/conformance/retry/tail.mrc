# All SACKed and no Transport ACK for T0: the last packet is repeated and asks for an acknowledgement
requires TACK-004
knobs mtu=256 timeout=6 base_rtt=1000000 complete_on_sack=0

0         ! write len=512 id=1 signaled
0         > write_first psn=0 len=256 dmalen=512
0         > write_last psn=1 from=256 at=256 len=256 dmalen=512
16us      < sack cack=1 ack_offset=0 rcvd=3
81.536us  > write_last psn=1 rtx=1 a=1
90us      < sack cack=1 ack_offset=0 rtx rcvd=3
90us      < ack psn=1
90us      = done write id=1 status=success

# A packet that left before the probe, on the same EV, and that the answer lacks is lost
requires PROBE-006, LOSS-004
knobs timeout=14 evs=1

0       ! write len=64
0       > write_only psn=0
100us   > probe probe_id=@p
160us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
160us   > write_only psn=0 rtx=1
170us   < ack psn=0

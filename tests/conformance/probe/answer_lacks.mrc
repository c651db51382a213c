# A packet that left before the probe, on the same EV, and that the answer lacks is lost; a target may leave it to the timer
requires PROBE-006, LOSS-004
knobs timeout=8 evs=1 probe_limit=10000000

0       ! write len=64
0       > write_only psn=0
100us   > probe probe_id=@p
160us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
either
    160us   > write_only psn=0 rtx=1
    170us   < ack psn=0
or
    165us      quiet
    262.144us  > write_only psn=0 rtx=1
    270us      < ack psn=0
end

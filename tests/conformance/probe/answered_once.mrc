# A second answer to the same probe is stale; what it lacks is sent again once
requires PROBE-004, PETH-002
knobs timeout=8 probe_limit=10000000

0       ! write len=64
0       > write_only psn=0
100us   > probe probe_id=@p
110us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
either
    110us   > write_only psn=0 rtx=1
    120us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
    121us   = count stale_probe=1
    130us   < ack psn=0
or
    115us      quiet
    120us      < sack cack=0xFFFFFF pr=1 ack_offset=@p
    121us      = count stale_probe=1
    262.144us  > write_only psn=0 rtx=1
    270us      < ack psn=0
end

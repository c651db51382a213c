# A second answer to the same probe is stale
requires PROBE-004, PETH-002
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
100us   > probe probe_id=@p
110us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
110us   > write_only psn=0 rtx=1
120us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
121us   = count stale_probe=1
130us   < ack psn=0

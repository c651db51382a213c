# A second answer to the same probe is stale
requires PROBE-004, PETH-002
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
150us   > probe probe_id=@p
160us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
170us   < sack cack=0xFFFFFF pr=1 ack_offset=@p
171us   = count stale_probe=1
180us   < ack psn=0

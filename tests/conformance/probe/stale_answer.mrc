# An answer to a probe nobody sent is counted
requires PROBE-004
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
10us    < sack cack=0xFFFFFF pr=1 ack_offset=999
11us    = count stale_probe=1
20us    < ack psn=0

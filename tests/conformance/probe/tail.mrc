# Data outstanding and nothing heard for three base RTTs: a probe, then one every five
requires PROBE-006, PETH-002, PETH-001
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
150us   > probe probe_id=@first
400us   > probe probe_id=!@first
650us   > probe probe_id=!@first
700us   < ack psn=0

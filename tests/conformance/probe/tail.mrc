# Nothing left to send and nothing heard for a base RTT and the target delay: a probe, then one every five base RTTs
requires PROBE-006, PETH-002, PETH-001
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
100us   > probe probe_id=@first
350us   > probe probe_id=!@first
600us   > probe probe_id=!@first
650us   < ack psn=0

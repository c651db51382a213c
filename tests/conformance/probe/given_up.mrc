# A probe without an answer is given up after three base RTTs and the target delay
requires PROBE-004
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
100us   > probe
110us   < ack psn=0
299us   = count probe_lost=0
301us   = count probe_lost=1

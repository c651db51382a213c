# A probe takes no PSN
requires PROBE-001
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
100us   > probe
110us   < ack psn=0
120us   ! write len=64
120us   > write_only psn=1 msn=1
130us   < ack psn=1

# A probe takes no PSN
requires PROBE-001
knobs timeout=14

0       ! write len=64
0       > write_only psn=0
150us   > probe
160us   < ack psn=0
170us   ! write len=64
170us   > write_only psn=1 msn=1
180us   < ack psn=1

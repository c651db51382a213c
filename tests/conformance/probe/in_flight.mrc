# A probe is not counted in flight: the window stays as open as it was
requires PROBE-001
knobs mtu=1024 window=2224 sack_threshold=2048

0       ! write len=1024
0       > write_only psn=0 len=1024
100us   > probe
110us   ! write len=1024
110us   > write_only psn=1 len=1024 msn=1
120us   < ack psn=1

# The knob silent_packets: behind a timeout so many packets test whether the peer is there; what else was lost waits for an answer, and new packets behind it
requires RETRY-001, SCHED-001
knobs mtu=256 timeout=6 linear=1 exp=0 base_rtt=1000000 probe_limit=80000 silent_packets=2

0           ! write len=1024 id=1 signaled
0           > write_first psn=0 len=256 dmalen=1024
0           > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0           > write_last psn=3 from=768 at=768 len=256 dmalen=1024
65.536us    > write_first psn=0 rtx=1
65.536us    > write_middle psn=1 rtx=1
65.536us    > probe
80us        ! write len=64 id=2 signaled
100us       < sack cack=0 rcvd=1
100us       > write_middle psn=2 rtx=1
100us       > write_last psn=3 rtx=1
100us       > write_only psn=4 msn=1
110us       < ack psn=4
110us       = done write id=1 status=success
110us       = done write id=2 status=success

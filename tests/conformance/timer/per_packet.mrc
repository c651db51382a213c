# Each packet has a timer of its own
requires TIMER-001, SND-007, REQ-002
knobs timeout=9 base_rtt=10000000 probe_limit=80000

0           ! write len=64
0           > write_only psn=0
256us       ! write len=64
256us       > write_only psn=1 msn=1
524.288us   > write_only psn=0 rtx=1
524.288us   > probe
560us       < sack cack=0 ack_offset=0 rtx rcvd=1
780.288us   > write_only psn=1 rtx=1
780.288us   > probe
800us       < ack psn=1

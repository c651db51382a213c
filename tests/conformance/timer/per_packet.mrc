# Each packet has a timer of its own
requires TIMER-001, SND-007, REQ-002
knobs timeout=6 base_rtt=1000000

0           ! write len=64
0           > write_only psn=0
32us        ! write len=64
32us        > write_only psn=1 msn=1
65.536us    > write_only psn=0 rtx=1
65.536us    > probe
70us        < sack cack=0 ack_offset=0 rtx rcvd=1
97.536us    > write_only psn=1 rtx=1
97.536us    > probe
100us       < ack psn=1

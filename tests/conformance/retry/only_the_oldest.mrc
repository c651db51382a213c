# A burst of losses costs one retry, not one for each packet
requires RETRY-001
knobs mtu=256 timeout=6 linear=1 exp=0 base_rtt=1000000

0           ! write len=1024 id=1 signaled
0           > write_first psn=0 len=256 dmalen=1024
0           > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0           > write_last psn=3 from=768 at=768 len=256 dmalen=1024
65.536us    > write_first psn=0 rtx=1
65.536us    > write_middle psn=1 rtx=1
65.536us    > write_middle psn=2 rtx=1
65.536us    > write_last psn=3 rtx=1
65.536us    > probe
75.536us    > probe
85.536us    > probe
95.536us    > probe
100us       < ack psn=3
100us       = done write id=1 status=success

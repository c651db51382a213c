# Progress by a SACK alone sets the retry count to zero: what is sent next has the base interval
requires RETRY-002, SRX-006
knobs mtu=256 timeout=6 linear=1 exp=5 base_rtt=1000000

0           ! write len=512
0           > write_first psn=0 len=256 dmalen=512
0           > write_last psn=1 from=256 at=256 len=256 dmalen=512
65.536us    > write_first psn=0 rtx=1
65.536us    > write_last psn=1 rtx=1
65.536us    > probe
70us        < sack cack=0 ack_offset=0 rtx rcvd=2
75.536us    > probe
80us        ! write len=64
80us        > write_only psn=2 msn=1
145.536us   > write_only psn=2 rtx=1
145.536us   > probe
150us       < ack psn=2

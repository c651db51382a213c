# A timeout retires the EV: until a probe is answered it carries nothing more
requires EV-007
knobs evs=2 mtu=256 timeout=6 base_rtt=1000000 ev_min_active=1

0           ! write len=64
0           > write_only psn=0 ev=@a
65.536us    > write_only psn=0 rtx=1 ev=@b
65.536us    > probe ev=@a
70us        < ack psn=0
71us        ! write len=1536
71us        > write_first psn=1 len=256 dmalen=1536 msn=1 ev=@b
71us        > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1 ev=@b
71us        > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1 ev=@b
72us        < ack psn=6

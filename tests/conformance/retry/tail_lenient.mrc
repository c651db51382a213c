# The knob tail_retry_lenient: a peer that answers the repeats may hold its Transport ACK as long as it likes
requires TACK-004
knobs timeout=6 linear=1 exp=0 base_rtt=1000000 tail_retry_lenient complete_on_sack=0

0           ! write len=64 id=1 signaled
0           > write_only psn=0
16us        < sack cack=0 rcvd=1
81.536us    > write_only psn=0 rtx=1
90us        < sack cack=0 rtx rcvd=1
147.072us   > write_only psn=0 rtx=1
150us       < sack cack=0 rtx rcvd=1
212.608us   > write_only psn=0 rtx=1
220us       < ack psn=0
220us       = done write id=1 status=success

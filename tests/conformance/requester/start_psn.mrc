# The first packet has the PSN agreed, and PSNs wrap
requires REQ-001, SEG-001, GEN-003
knobs mtu=256 sq_psn=0xFFFFFF

0     ! write len=512 id=1 signaled
0     > write_first psn=0xFFFFFF len=256 dmalen=512
0     > write_last psn=0 from=256 at=256 len=256 dmalen=512
10us  < sack cack=0 rcvd=3
10us  < ack psn=0
10us  = done write id=1 status=success

# A Transport ACK is a cumulative acknowledgement too: no timer fires
requires TACK-001, MODEL-003
knobs mtu=256 timeout=6 base_rtt=1000000

0      ! write len=1024
0      > write_first psn=0 len=256 dmalen=1024
0      > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0      > write_last psn=3 from=768 at=768 len=256 dmalen=1024
10us   < ack psn=3
2ms    quiet

# A probe is answered with its id, EV and timestamp
requires SACK-005, PROBE-002

0    < write_first psn=0 len=1024 dmalen=4096
1us  < probe probe_id=0xBEEF ev=0x00091234 stamp=0xFFF0
1us  > sack cack=0 pr=1 ack_offset=0xBEEF entropy=0x00091234 stamp=0xFFF0

# Probes add nothing to the byte counter and take no PSN
requires RBYT-001, PROBE-001

0    < probe probe_id=1
0    > sack cack=0xFFFFFF pr=1 ack_offset=1 rcvd=0
1us  < write_only psn=0 len=64 a
1us  > sack cack=0 rcvd=1
1us  > ack psn=0 msn=1

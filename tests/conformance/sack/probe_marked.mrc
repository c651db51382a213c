# A marked probe is answered with the verdict
requires MFLD-001, PROBE-002

0    < probe probe_id=1 ce
0    > sack cack=0xFFFFFF pr=1 ack_offset=1 m=1

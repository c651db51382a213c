# A QP in RTR answers probes
requires PROBE-003
knobs state=rtr

0    < probe probe_id=9
0    > sack cack=0xFFFFFF pr=1 ack_offset=9

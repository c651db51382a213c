# Probes of one QP keep their distance
requires PROBE-008
knobs mtu=256 timeout=6 probe_limit=20000 base_rtt=1000000

0           ! write len=512
0           > write_first psn=0 len=256 dmalen=512
0           > write_last psn=1 from=256 at=256 len=256 dmalen=512
65.536us    > write_first psn=0 rtx=1
65.536us    > write_last psn=1 rtx=1
65.536us    > probe
85.536us    > probe
90us        < ack psn=1

# A probe carries PSN 0, no rtx, its own timestamp; it travels with the data
requires PROBE-001, BTH-013, PETH-001, TS-001
knobs timeout=14 trimming dscp_trimmable=4

0       ! write len=64
0       > write_only psn=0
100us   > probe psn=0 rtx=0 a=0 ftype=1 tsr=0 ip.dscp=4 ip.ecn=2
110us   < ack psn=0

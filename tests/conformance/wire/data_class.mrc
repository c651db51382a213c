# Without trimming, data travels on DSCP 0, ECN-capable, and so does a retransmission
requires DSCP-003, IP6-002, CAP-001
knobs timeout=6 dscp_no_trim=0

0         ! write len=64
0         > write_only psn=0 ip.dscp=0 ip.ecn=2
65.536us  > write_only psn=0 rtx=1 ip.dscp=0 ip.ecn=2
65.536us  > probe ip.dscp=0 ip.ecn=2
66us      < ack psn=0

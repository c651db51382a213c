# Without a code point for retransmissions they use the trimmable one
requires DSCP-004
knobs timeout=6 trimming dscp_retx=4 dscp_trimmable=4

0         ! write len=64
0         > write_only psn=0 ip.dscp=4
65.536us  > write_only psn=0 rtx=1 ip.dscp=4
65.536us  > probe ip.dscp=4
66us      < ack psn=0

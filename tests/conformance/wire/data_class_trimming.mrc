# With trimming, first transmissions and probes are trimmable, retransmissions have a code point of their own
requires DSCP-003, DSCP-004
knobs timeout=6 trimming dscp_trimmable=4 dscp_retx=8

0         ! write len=64
0         > write_only psn=0 ip.dscp=4
65.536us  > write_only psn=0 rtx=1 ip.dscp=8
65.536us  > probe ip.dscp=4
66us      < ack psn=0

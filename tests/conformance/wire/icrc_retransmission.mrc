# A retransmission has a trailer of its own
requires ICRC-009
knobs timeout=6

0         ! write len=64
0         > write_only psn=0
65.536us  > write_only psn=0 rtx=1
65.536us  > probe
66us      < ack psn=0

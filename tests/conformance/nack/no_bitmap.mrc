# NO_BITMAP resends after a base RTT and blames no path
requires NACK-004, NETH-002, EV-006

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x06
60us  > write_only psn=0 rtx=1
61us  = count ev_skipped=0
70us  < ack psn=0

# PSN_OOR_WINDOW resends a base RTT later
requires NACK-005

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x0B
60us  > write_only psn=0 rtx=1
70us  < ack psn=0

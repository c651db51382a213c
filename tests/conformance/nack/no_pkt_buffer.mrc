# NO_PKT_BUFFER resends after a base RTT
requires NACK-004, NETH-002

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x07
60us  > write_only psn=0 rtx=1
70us  < ack psn=0

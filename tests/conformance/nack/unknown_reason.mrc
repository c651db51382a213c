# A reason nobody knows is handled like a lack of resources
requires NACK-008, NETH-003

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x7E
60us  > write_only psn=0 rtx=1
61us  = count ev_skipped=0
70us  < ack psn=0

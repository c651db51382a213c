# A NACK of any congestion type counts
requires NETH-004
knobs trimming

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x01 cc_type=0
10us  > write_only psn=0 rtx=1
20us  < ack psn=0

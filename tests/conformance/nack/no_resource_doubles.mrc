# Resource NACKs in a row double the pause
requires NACK-004

0      ! write len=64
0      > write_only psn=0
10us   < nack nack_psn=0 reason=0x0A
60us   > write_only psn=0 rtx=1
70us   < nack nack_psn=0 reason=0x0A rtx=1
170us  > write_only psn=0 rtx=1
180us  < nack nack_psn=0 reason=0x0A rtx=1
330us  > probe
380us  > write_only psn=0 rtx=1
390us  < ack psn=0

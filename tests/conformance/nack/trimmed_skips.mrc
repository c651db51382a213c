# TRIMMED skips the EV it echoes
requires NACK-002, EV-005
knobs trimming

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1
10us  = count ev_skipped=1
20us  < ack psn=0

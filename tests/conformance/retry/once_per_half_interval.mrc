# Refusals of the oldest packet in quick succession charge one retry
requires RETRY-001
knobs timeout=14 linear=1 exp=0 retry_strict=0 trimming

0     ! write len=64 id=1 signaled
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1
20us  < nack nack_psn=0 reason=0x01 rtx=1
20us  > write_only psn=0 rtx=1
30us  < nack nack_psn=0 reason=0x01 rtx=1
30us  > write_only psn=0 rtx=1
40us  < ack psn=0
40us  = done write id=1 status=success

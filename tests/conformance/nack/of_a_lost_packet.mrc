# A NACK for a packet that waits for its retransmission says nothing, not even about the path
requires NACK-001
knobs trimming

0     ! write len=64
0     > write_only psn=0 ev=@first
10us  < nack nack_psn=0 reason=0x0a
11us  < nack nack_psn=0 reason=0x01 entropy=@first
12us  = count ev_skipped=0
12us  = count stale_nack=1
60us  > write_only psn=0 rtx=1
70us  < ack psn=0

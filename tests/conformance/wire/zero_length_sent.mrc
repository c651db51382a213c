# A write of zero bytes is one packet without payload
requires LEN-006, SEG-001
knobs reject_zero_len=0

0    ! write len=0 id=3 signaled
0    > write_only psn=0 len=0 dmalen=0
1us  < ack psn=0
1us  = done write id=3 status=success len=0

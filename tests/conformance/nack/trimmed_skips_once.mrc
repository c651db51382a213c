# TRIMMED skips the EV and does not retire it: it carries packets again
requires NACK-002, EV-005
knobs trimming evs=2 mtu=256 skip_time=0

0     ! write len=64
0     > write_only psn=0 ev=@a
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=!@a
20us  < ack psn=0
21us  ! write len=1536
21us  > write_first psn=1 len=256 dmalen=1536 msn=1
21us  > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1
21us  > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1
22us  = paths psn=1..6 distinct=2
23us  < ack psn=6

# It still says something about the path it names
requires NACK-007, EV-018
knobs trimming mtu=256

0     ! write len=512
0     > write_first psn=0 len=256 dmalen=512 ev=@first
0     > write_last psn=1 from=256 at=256 len=256 dmalen=512 ev=!@first
10us  < nack nack_psn=1 reason=0x01 entropy=@first
11us  = count ev_skipped=1
11us  = count retransmitted=0
20us  < ack psn=1

# TRIMMED_LASTHOP resends at once and blames no path
requires NACK-003, EV-006
knobs trimming evs=1

0     ! write len=64
0     > write_only psn=0 ev=0
10us  < nack nack_psn=0 reason=0x02
10us  > write_only psn=0 rtx=1
10us  = count ev_skipped=0
20us  < ack psn=0

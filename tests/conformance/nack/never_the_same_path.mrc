# A retransmission never takes the path whose refusal it answers: with two healthy paths they alternate
requires SND-005, NACK-003
knobs trimming evs=2

0     ! write len=64
0     > write_only psn=0 ev=@a
10us  < nack nack_psn=0 reason=0x02
10us  > write_only psn=0 rtx=1 ev=@b
20us  < nack nack_psn=0 reason=0x02 rtx
20us  > write_only psn=0 rtx=1 ev=@a
30us  < nack nack_psn=0 reason=0x02 rtx
30us  > write_only psn=0 rtx=1 ev=@b
40us  < nack nack_psn=0 reason=0x02 rtx
40us  > write_only psn=0 rtx=1 ev=@a
50us  < nack nack_psn=0 reason=0x02 rtx
50us  > write_only psn=0 rtx=1 ev=@b
60us  < nack nack_psn=0 reason=0x02 rtx
60us  > write_only psn=0 rtx=1 ev=@a
70us  < nack nack_psn=0 reason=0x02 rtx
70us  > write_only psn=0 rtx=1 ev=@b
80us  < nack nack_psn=0 reason=0x02 rtx
80us  > write_only psn=0 rtx=1 ev=@a
90us  < ack psn=0

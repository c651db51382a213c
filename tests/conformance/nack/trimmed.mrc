# A trimmed packet goes again at once, over another path
requires NACK-002, EV-005
knobs trimming

0     ! write len=64
0     > write_only psn=0 ev=@first
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=!@first
20us  < sack cack=0 of=0 rtx=1
20us  < ack psn=0

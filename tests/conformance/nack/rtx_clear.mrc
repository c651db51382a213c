# A NACK with the entropy of the retransmission refuses that one, though its rtx flag is clear
requires NACK-002, NACK-007
knobs trimming

0     ! write len=64
0     > write_only psn=0 ev=@first
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=!@first
20us  < nack nack_psn=0 reason=0x01 rtx=0
20us  > write_only psn=0 rtx=1
30us  < ack psn=0

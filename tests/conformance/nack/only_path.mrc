# With one path in the profile a retransmission takes it again, whatever refused the packet
requires SND-005
knobs evs=1 trimming

0     ! write len=64
0     > write_only psn=0 ev=@a
10us  < nack nack_psn=0 reason=0x01
10us  > write_only psn=0 rtx=1 ev=@a
20us  < ack psn=0

# A trim NACK lets the EV it echoes rest in the same way
requires EV-005, NACK-002
knobs evs=2 mtu=256 skip_time=1000000 trimming

0       ! write len=64
0       > write_only psn=0 ev=@a
10us    < nack nack_psn=0 reason=0x01
10us    > write_only psn=0 rtx=1 ev=@b
20us    < ack psn=0
30us    ! write len=1536
30us    > write_first psn=1 len=256 dmalen=1536 msn=1 ev=@b
30us    > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1 ev=@b
30us    > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1 ev=@b
40us    < ack psn=6
1.1ms   ! write len=1536
1.1ms   > write_first psn=7 len=256 dmalen=1536 msn=2
1.1ms   > write_middle psn=8..11 from=256 at=256 len=256 dmalen=1536 msn=2
1.1ms   > write_last psn=12 from=1280 at=1280 len=256 dmalen=1536 msn=2
1.11ms  = paths psn=7..12 distinct=2
1.11ms  < ack psn=12

# By a knob a retransmission takes the last good path at once, though that refused the packet
requires SND-005
knobs evs=2 mtu=256 base_rtt=50000 probe_interval=100000000 reuse_nacked_ev=1

0        ! write len=64
0        > write_only psn=0 ev=@a
1.024us  < sack cack=0 m=2 rcvd=1
1.024us  < ack psn=0
100us    ! write len=64
100us    > write_only psn=1 msn=1 ev=@b
110us    < nack nack_psn=1 reason=0x02
110us    > write_only psn=1 msn=1 rtx=1 ev=@b
120us    < ack psn=1

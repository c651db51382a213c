# The last good path refused a packet: its retransmission takes a bad path, one per base RTT, and the next one the good path again
requires SND-005, SEL-005, NACK-003
knobs evs=2 mtu=256 base_rtt=50000 probe_interval=100000000 last_resort=1 reuse_nacked_ev=0

0        ! write len=64
0        > write_only psn=0 ev=@a
1.024us  < sack cack=0 m=2 rcvd=1
1.024us  < ack psn=0
100us    ! write len=512
100us    > write_first psn=1 len=256 dmalen=512 msn=1 ev=@b
100us    > write_last psn=2 from=256 at=256 len=256 dmalen=512 msn=1 ev=@b
110us    < nack nack_psn=1 reason=0x02
110us    > write_first psn=1 len=256 dmalen=512 msn=1 rtx=1 ev=@a
120us    < nack nack_psn=2 reason=0x02
160us    > write_last psn=2 from=256 at=256 len=256 dmalen=512 msn=1 rtx=1 ev=@a
170us    < nack nack_psn=1 reason=0x02 rtx
170us    > write_first psn=1 len=256 dmalen=512 msn=1 rtx=1 ev=@b
180us    < ack psn=2

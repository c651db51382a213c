# Where the target sends data, too, its answers take the EV that the last unmarked SACK has found to work
requires REV-002
knobs mtu=1024

0     ! write len=64
0     > write_only psn=0 ev=@first
10us  < sack cack=0 rcvd=1
10us  < ack psn=0
20us  < write_only psn=0 at=1024 len=64
20us  > ack psn=0 ev=@first
30us  ! write len=64
30us  > write_only psn=1 msn=1 ev=@second
40us  < sack cack=1 rcvd=2
40us  < ack psn=1
50us  < write_only psn=1 at=1024 len=64
50us  > ack psn=1 ev=@second
60us  ! write len=64
60us  > write_only psn=2 msn=2 ev=@third
70us  < sack cack=2 rcvd=2 m=1
70us  < ack psn=2
80us  < write_only psn=2 at=1024 len=64
80us  > ack psn=2 ev=@second

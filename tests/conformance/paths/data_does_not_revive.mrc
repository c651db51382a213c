# A SACK of data on a bad EV does not bring it back
requires BAL-004
knobs evs=2 mtu=256

0     ! write len=64
0     > write_only psn=0 ev=@a
1us   < sack cack=0 m=2 rcvd=1
2us   < sack cack=0 m=0 rcvd=1
2us   < ack psn=0
3us   ! write len=1536
3us   > write_first psn=1 len=256 dmalen=1536 msn=1 ev=@b
3us   > write_middle psn=2..5 from=256 at=256 len=256 dmalen=1536 msn=1 ev=@b
3us   > write_last psn=6 from=1280 at=1280 len=256 dmalen=1536 msn=1 ev=@b
4us   < ack psn=6

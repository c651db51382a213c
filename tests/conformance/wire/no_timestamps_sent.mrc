# Without timestamps writes carry no TSETH
requires BTH-009
knobs timestamps=off

0    ! write len=64
0    > write_only psn=0 bth.ts=0
1us  < ack psn=0

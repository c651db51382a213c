# A plain write is never solicited
requires BTH-003

0     ! write len=64 se
0     > write_only psn=0 bth.se=0
10us  < ack psn=0

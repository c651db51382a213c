# A last packet of 3 bytes has one byte of pad, and the length of the whole message
requires LEN-004, LEN-003, RETH-002, BTH-004
knobs mtu=1024

0     ! write len=2051
0     > write_first psn=0 len=1024 dmalen=2051
0     > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=2051
0     > write_last psn=2 from=2048 at=2048 len=3 dmalen=2051
10us  < ack psn=2

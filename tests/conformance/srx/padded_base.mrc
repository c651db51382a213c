# A base below the hole with ones for what is cumulative is accepted
requires SACK-015, SRX-004
knobs mtu=256 timeout=6

0         ! write len=1024
0         > write_first psn=0 len=256 dmalen=1024
0         > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024
0         > write_last psn=3 from=768 at=768 len=256 dmalen=1024
10us      < sack cack=1 ack_offset=2 sack_offset=-6 bitmap=0x17F rcvd=4
65.536us  > write_middle psn=2 rtx=1
65.536us  > probe
66us      < ack psn=3

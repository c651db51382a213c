# The packet that triggered a SACK counts as received though the bitmap does not reach it
requires SRX-004
knobs mtu=256 timeout=6

0         ! write len=512
0         > write_first psn=0 len=256 dmalen=512
0         > write_last psn=1 from=256 at=256 len=256 dmalen=512
10us      < sack cack=0xFFFFFF ack_offset=2 bitmap=0 rcvd=2
65.536us  > write_first psn=0 rtx=1
65.536us  > probe
66us      < ack psn=1

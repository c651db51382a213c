# Bits above the highest PSN sent are ignored
requires SRX-004
knobs mtu=256 timeout=6

0         ! write len=64
0         > write_only psn=0
10us      < sack cack=0xFFFFFF ack_offset=0 bitmap=0xFFFFFFFFFFFFFFFC rcvd=0
11us      ! write len=64
11us      > write_only psn=1 msn=1
65.536us  > write_only psn=0 rtx=1
65.536us  > probe
66us      < ack psn=1

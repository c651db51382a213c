# A SACK for a PSN never sent is dropped
requires SRX-001, CTL-001
knobs timeout=6

0         ! write len=64
0         > write_only psn=0
10us      < sack cack=1 rcvd=9
11us      = count stale_psn=1
65.536us  > write_only psn=0 rtx=1
65.536us  > probe
66us      < ack psn=0

# Fast retransmission charges no retry: the next timer is the base one
requires LOSS-005, TIMER-003
knobs mtu=256 reorder_factor=0 timeout=7 linear=1 reorder_min=3

0          ! write len=1536
0          > write_first psn=0 len=256 dmalen=1536
0          > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0          > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
64us       < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
64us       > write_first psn=0 rtx=1
165.75us   > probe
195.072us  > write_first psn=0 rtx=1
195.072us  > probe
200us      < ack psn=5

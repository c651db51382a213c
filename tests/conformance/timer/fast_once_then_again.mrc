# After the timer expired a packet that new packets overtake is inferred lost again
requires LOSS-004, TIMER-004
knobs mtu=256 reorder_factor=0 timeout=7 reorder_min=3

0          ! write len=1536
0          > write_first psn=0 len=256 dmalen=1536
0          > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0          > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
64us       < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
64us       > write_first psn=0 rtx=1
165.75us   > probe
195.072us  > write_first psn=0 rtx=1
195.072us  > probe
200us      ! write len=1536
200us      > write_first psn=6 msn=1 len=256 dmalen=1536
200us      > write_middle psn=7..10 msn=1 from=256 at=256 len=256 dmalen=1536
200us      > write_last psn=11 msn=1 from=1280 at=1280 len=256 dmalen=1536
205us      < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
260us      < sack cack=0xFFFFFF ack_offset=12 bitmap=0xFFE rcvd=15
260us      > write_first psn=0 rtx=1
270us      < ack psn=11

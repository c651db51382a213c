# A packet from a masked port shows that the port works; one that may have left before the port failed shows nothing
requires EPOP-008
knobs planes=2 evs=4 mtu=256 base_rtt=10000000 port_mask_zero_based=0 port_unmask_after=16777216

0     < ep_request psn=1 op=0 mask=0x2
0     > ep_response psn=1 op=0
1ms   < write_first psn=0 at=8192 len=256 dmalen=768 rtx port=2
1ms   > sack cack=0 rtx=1 port=1
2ms   ! write len=1024
2ms   > write_first psn=0 len=256 dmalen=1024 port=1
2ms   > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024 port=1
2ms   > write_last psn=3 from=768 at=768 len=256 dmalen=1024 port=1
2.05ms < ack psn=3
16.8ms < write_middle psn=1 at=8448 len=256 dmalen=768 rtx port=2
16.8ms > sack cack=1 rtx=1
17ms  ! write len=1024
17ms  > write_first psn=4 len=256 dmalen=1024 msn=1
17ms  > write_middle psn=5..6 from=256 at=256 len=256 dmalen=1024 msn=1
17ms  > write_last psn=7 from=768 at=768 len=256 dmalen=1024 msn=1
17.05ms = paths psn=4..7 distinct=4
17.05ms < ack psn=7

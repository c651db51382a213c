# With the knob port_unmask_after=0 only an update unmasks a port
requires EPOP-008
knobs planes=2 evs=4 mtu=256 port_unmask_after=0 base_rtt=10000000 port_mask_zero_based=0

0     < ep_request psn=1 op=0 mask=0x2
0     > ep_response psn=1 op=0
20ms   < write_only psn=0 at=8192 len=256 a port=2
20ms   > sack cack=0 port=1
20ms   > ack psn=0 msn=1 port=1
21ms   ! write len=1024
21ms   > write_first psn=0 len=256 dmalen=1024 port=1
21ms   > write_middle psn=1..2 from=256 at=256 len=256 dmalen=1024 port=1
21ms   > write_last psn=3 from=768 at=768 len=256 dmalen=1024 port=1
21.05ms < ack psn=3

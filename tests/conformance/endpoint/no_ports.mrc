# An update that leaves no port is a hint: probes test every port at the timer's pace, and their answers bring it back
requires EPOP-009, EPOP-008, SEL-006
knobs planes=2 evs=2 base_rtt=10000000 port_unmask_after=1000 timeout=9 probe_limit=100000 probe_masked_ports=1

0     < ep_request psn=1 op=0 mask=0
0     > ep_response psn=1 op=0
1us   ! write len=64
525.288us > probe port=1
625.288us > probe port=2
1049.576us > probe port=1
1060us < sack pr=1 cack=0xffffff port=1
1060us > write_only psn=0 port=1
1061us < ack psn=0

# An update that leaves no port is a hint: probes test every port at the timer's pace, and their answers bring it back
requires EPOP-009, EPOP-008, SEL-006
knobs planes=2 evs=2 base_rtt=1000000 port_unmask_after=1000 timeout=6

0     < ep_request psn=1 op=0 mask=0
0     > ep_response psn=1 op=0
1us   ! write len=64
66.536us > probe port=1
76.536us > probe port=2
132.072us > probe port=1
133us < sack pr=1 cack=0xffffff port=1
133us > write_only psn=0 port=1
134us < ack psn=0

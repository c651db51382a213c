# A Port Status Update is answered
requires EPOP-005, ERTH-001, EETH-001, BTH-014

0    < ep_request psn=7 op=0 mask=0x2
0    > ep_response psn=7 op=0

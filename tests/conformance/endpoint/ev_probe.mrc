# An EV probe is answered with its identifier and timestamp in the control class
requires EPOP-003, BTH-014, ERTH-001, EETH-001, EETH-002, EPOP-001
knobs ctl_ect=0 dscp_control=46

0    < ep_request psn=0xCDEF op=1 stamp=0x4321 ev=0x00091234
0    > ep_response psn=0xCDEF op=1 stamp=0x4321 ip.dscp=46 ip.ecn=0

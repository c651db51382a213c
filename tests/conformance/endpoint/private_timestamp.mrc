# A timestamp of a private unit is copied
requires EETH-002, TS-003

0    < ep_request psn=1 op=1 stamp=0x1111 tsr=1
0    > ep_response psn=1 op=1 stamp=0x1111

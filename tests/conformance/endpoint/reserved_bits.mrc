# Reserved bits of a request change nothing, and none comes back
requires GEN-002

0    < ep_request psn=1 op=1 type=0xF next=0x1F res1=0x1F res2=0xFF vendor=0xFF res3=0xFFFFFFFF ts_res=0x7FF
0    > ep_response psn=1 op=1

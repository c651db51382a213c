# A response that nobody asked for is dropped
requires EPOP-002

0    < ep_response psn=5 op=1
1us  = state rts

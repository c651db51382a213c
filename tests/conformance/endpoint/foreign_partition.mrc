# An endpoint request of another partition gets no response
requires VAL-012

0    < ep_request psn=7 op=1 pkey=0x1234
1us  < ep_request psn=8 op=1
1us  > ep_response psn=8 op=1

# A reserved operation is dropped
requires ERTH-002

0    < ep_request psn=7 op=2
1us  < ep_request psn=8 op=3
2us  < ep_request psn=9 op=1
2us  > ep_response psn=9 op=1

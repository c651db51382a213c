# Endpoint operations need no connected QP
requires EPOP-001
knobs state=init

0    < ep_request psn=7 op=1
0    > ep_response psn=7 op=1

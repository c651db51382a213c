# A Port Status Update from a stranger changes nothing
requires EPOP-004

0    < ep_request psn=7 op=0 mask=0 ip.src=0x20010db8000100000000000000000063
1us  ! write len=64
1us  > write_only psn=0
2us  < ack psn=0

# A request from an address that is no peer's is dropped
requires EPOP-004

0    < ep_request psn=7 op=1 ip.src=0x20010db8000100000000000000000063
1us  = count stranger=1
9us  < probe probe_id=9
9us  > sack cack=0xFFFFFF pr=1 ack_offset=9 rcvd=0

# News of a port is repeated until it is answered: three times at once, then at waits that double up to a second
requires EPOP-006
knobs planes=2 evs=4 port_mask_zero_based=0

0     ! port port=2 down
0     > ep_request op=0 mask=0x2 port=1
16.777216ms > ep_request op=0 mask=0x2 port=1
33.554432ms > ep_request op=0 mask=0x2 port=1
50.331648ms > ep_request op=0 mask=0x2 port=1
83.88608ms  > ep_request op=0 mask=0x2 port=1
150.994944ms > ep_request op=0 mask=0x2 port=1
285.212672ms > ep_request op=0 mask=0x2 port=1
553.648128ms > ep_request op=0 mask=0x2 port=1
1090.51904ms > ep_request op=0 mask=0x2 port=1
2090.51904ms > ep_request op=0 mask=0x2 port=1 psn=@id
2100ms < ep_response psn=@id op=0
9000ms quiet

# News of a port has an identifier of its own: a response to the news before it does not end its repetition
requires EPOP-002, EPOP-006
knobs planes=2 evs=4 port_mask_zero_based=0

0     ! port port=2 down
0     > ep_request op=0 mask=0x2 psn=@old port=1
1ms   ! port port=2 up
1ms   > ep_request op=0 mask=0x6 psn=!@old port=1
1ms   > ep_request op=0 mask=0x6 psn=@new port=2
2ms   < ep_response psn=@old op=0
17.777216ms > ep_request op=0 mask=0x6 psn=@new port=1
17.777216ms > ep_request op=0 mask=0x6 psn=@new port=2
18ms  < ep_response psn=@new op=0
60ms  quiet

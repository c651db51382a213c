# A response with another identifier ends no repetition of a port update; the right one does
requires EPOP-002, EPOP-006
knobs planes=2 evs=4 port_mask_zero_based=0

0     ! port port=2 down
0     > ep_request op=0 mask=0x2 port=1 psn=@id
1us   < ep_response psn=0xFEDC op=0
16.777216ms > ep_request op=0 mask=0x2 port=1 psn=@id
17ms  < ep_response psn=@id op=0
60ms  quiet

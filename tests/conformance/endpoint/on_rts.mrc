# With the knob port_update_on_rts a QP that enters RTS tells its ports over every plane
requires EPOP-006
knobs planes=2 evs=4 port_update_on_rts port_mask_zero_based=0

0     > ep_request op=0 mask=0x6 psn=@first
0     > ep_request op=0 mask=0x6 psn=@second
1us   < ep_response psn=@first op=0
1us   < ep_response psn=@second op=0
40ms  quiet

# A lost port is told to the peer over the planes that are left
requires EPOP-006, PORT-005, BTH-014
knobs planes=2 evs=4 port_mask_zero_based=0

0     ! port port=2 down
0     > ep_request op=0 mask=0x2 psn=@id port=1
1us   < ep_response psn=@id op=0
40ms  quiet

# Bit 0 of a port mask is ignored
requires ERTH-003
knobs planes=2 evs=4 port_mask_zero_based=0

0     < ep_request psn=1 op=0 mask=0x5
0     > ep_response psn=1 op=0 port=2
1us   ! write len=64
1us   > write_only psn=0 port=2
2us   < ack psn=0

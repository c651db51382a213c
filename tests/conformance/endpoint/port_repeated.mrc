# Without an answer the news is repeated, three times at most
requires EPOP-006
knobs planes=2 evs=4

0     ! port port=2 down
0     > ep_request op=0 mask=0x2 port=1
16.777216ms > ep_request op=0 mask=0x2 port=1
33.554432ms > ep_request op=0 mask=0x2 port=1
50.331648ms > ep_request op=0 mask=0x2 port=1
200ms quiet

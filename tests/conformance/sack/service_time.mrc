# With service time agreed a responder adds the time that an answer waited to the timestamp it reflects
requires TS-005, CAP-002
knobs svc_time=1 port_mask_zero_based=0

0       ! port port=1 down
1us     < write_only psn=0 len=64 a stamp=0x1000
2.28us  ! port port=1
2.28us  > ep_request op=0 mask=0x2 psn=@id
2.28us  > sack cack=0 stamp=0x100A
2.28us  > ack psn=0
3us     < ep_response psn=@id op=0

# With service time agreed a responder adds the time that an answer waited to the timestamp it reflects
requires TS-005, CAP-002
knobs svc_time=1 port_mask_zero_based=0

0       ! port port=1 down
1us     < write_only psn=0 len=64 a stamp=0x1000
129us   ! port port=1
129us   > ep_request op=0 mask=0x2 psn=@id
129us   > sack cack=0 stamp=0x13E8
129us   > ack psn=0
130us   < ep_response psn=@id op=0

# A port that returns before the retry budget is spent lets the QP go on
requires RETRY-004, PORT-002
knobs timeout=6 linear=1 exp=1 port_mask_zero_based=0 complete_on_sack=0 exp_from_t0=0

0     ! port port=1 down
1us   ! write len=64 id=1 signaled
400us ! port port=1
400us > ep_request op=0 mask=0x2 psn=@id
400us > write_only psn=0
401us < ep_response psn=@id op=0
402us < sack cack=0
403us < ack psn=0
403us = done write id=1

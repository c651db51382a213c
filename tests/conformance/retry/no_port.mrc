# Without a port time charges the retry budget: the QP fails when it is spent
requires RETRY-004, ERR-005
knobs timeout=12 linear=1 exp=1 exp_from_t0=0

0     ! port port=1 down
1us   ! write len=64 id=1
20ms  = state rts
29.361128ms = done write id=1 status=retry_exceeded
100ms quiet

# Without a port time charges the retry budget: the QP fails when it is spent
requires RETRY-004, ERR-005
knobs timeout=6 linear=1 exp=1

0     ! port port=1 down
1us   ! write len=64 id=1
400us = state rts
459.752us = done write id=1 status=retry_exceeded
1000ms quiet

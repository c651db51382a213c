# The knob stale_nak_fatal: such a NAK ends the QP, and the oldest request reports the cause
requires CTL-003
knobs stale_nak_fatal base_rtt=1000000

0     ! write len=64 id=1 signaled
0     > write_only psn=0
1us   ! write len=64 id=2 signaled
1us   > write_only psn=1 msn=1
10us  < ack psn=0
10us  = done write id=1 status=success
11us  < ack psn=0 syndrome=0x62
11us  = done write id=2 status=remote_access
12us  = state error

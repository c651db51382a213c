# A timeout of a packet that is not the oldest charges no retry
requires RETRY-001
knobs timeout=9 linear=1 exp=0 base_rtt=10000000 probe_limit=80000 retry_strict=0

0           ! write len=64
0           > write_only psn=0
320us       ! write len=64 id=2 signaled
320us       > write_only psn=1 msn=1
524.288us   > write_only psn=0 rtx=1
524.288us   > probe
844.288us   > write_only psn=1 rtx=1
844.288us   > probe
880us       < ack psn=1
880us       = done write id=2 status=success

# Progress by a SACK alone sets the retry count to zero: what is sent next has the base interval
requires RETRY-002, SRX-006
knobs mtu=256 timeout=9 linear=1 exp=5 base_rtt=10000000 probe_limit=80000 exp_from_t0=0

0           ! write len=512
0           > write_first psn=0 len=256 dmalen=512
0           > write_last psn=1 from=256 at=256 len=256 dmalen=512
524.288us   > write_first psn=0 rtx=1
524.288us   > write_last psn=1 rtx=1
524.288us   > probe
560us       < sack cack=0 ack_offset=0 rtx rcvd=2
604.288us   > probe
640us       ! write len=64
640us       > write_only psn=2 msn=1
1164.288us  > write_only psn=2 rtx=1
1164.288us  > probe
1200us      < ack psn=2

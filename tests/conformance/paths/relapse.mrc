# An answer ends the back-off: an EV that fails again after its return waits no longer than the first time
requires RES-001, RES-002
knobs evs=2 mtu=256 base_rtt=50000 probe_interval=512000 resurrect_probes=1 relapse_backoff=0

0              ! write len=64
0              > write_only psn=0 ev=@a
1.024us        < sack cack=0 m=2 rcvd=1
1.024us        < ack psn=0
600us          ! write len=64
600us          > write_only psn=1 msn=1
600us..650us   > probe ev=@a probe_id=@p
660us          < ack psn=1
661us          < sack cack=1 pr=1 ack_offset=@p entropy=@a rcvd=1
680us          < sack cack=1 m=2 entropy=@a rcvd=1
1.30ms         ! write len=64
1.30ms         > write_only psn=2 msn=2
1.30ms..1.35ms > probe ev=@a probe_id=@q
1.36ms         < ack psn=2

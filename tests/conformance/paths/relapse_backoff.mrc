# The knob relapse_backoff: an EV that fails again after its return waits twice as long for its next probe; a good SACK takes that back
requires RES-002
knobs evs=2 mtu=256 base_rtt=50000 probe_interval=512000 resurrect_probes=1 relapse_backoff=1

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
1.36ms         < ack psn=2
1.75ms         ! write len=64
1.75ms         > write_only psn=3 msn=3
1.75ms..1.80ms > probe ev=@a probe_id=@q
1.81ms         < ack psn=3
1.811ms        < sack cack=3 pr=1 ack_offset=@q entropy=@a rcvd=1
1.812ms        < sack cack=3 entropy=@a rcvd=1
1.813ms        < sack cack=3 entropy=@a rcvd=1
1.814ms        < sack cack=3 m=2 entropy=@a rcvd=1
2.40ms         ! write len=64
2.40ms         > write_only psn=4 msn=4
2.40ms..2.45ms > probe ev=@a probe_id=@r
2.46ms         < ack psn=4

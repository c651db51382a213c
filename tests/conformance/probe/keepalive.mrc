# The knob keepalive probes a silent peer
requires PROBE-003
knobs keepalive=1000000

1ms      > probe probe_id=@p
1.01ms   < sack cack=0xFFFFFF pr=1 ack_offset=@p
2.01ms   > probe probe_id=!@p
2.02ms   quiet

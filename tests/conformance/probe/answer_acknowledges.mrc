# The answer to a probe acknowledges what it shows
requires PROBE-002, SETH-004
knobs timeout=14 complete_on_sack=0

0       ! write len=64 id=1 signaled
0       > write_only psn=0
100us   > probe probe_id=@p
110us   < sack cack=0 pr=1 ack_offset=@p rcvd=1
2ms     < ack psn=0
2ms     = done write id=1 status=success

# A QP writes and is written to, each direction with PSNs of its own
requires MODEL-001
knobs psn=500 sq_psn=900

0     ! write len=64 id=1 signaled
0     > write_only psn=900
1us   < write_only psn=500 len=64 a
1us   > sack cack=500
1us   > ack psn=500
2us   < sack cack=900 rcvd=1
2us   < ack psn=900
2us   = done write id=1 status=success

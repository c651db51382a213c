# The last EV of the set is skipped, not retired
requires BAL-002, SEL-003
knobs evs=1 ev_min_active=1

0     ! write len=64
0     > write_only psn=0 ev=0
1us   < sack cack=0 m=2 rcvd=1
1us   < ack psn=0
2us   ! write len=64
2us   > write_only psn=1 msn=1 ev=0
2us   = count ev_assumed_bad=0
3us   < ack psn=1

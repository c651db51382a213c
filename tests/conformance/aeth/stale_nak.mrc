# A NAK for a PSN that a Transport ACK covered is dropped: it is late or forged
requires CTL-003
knobs base_rtt=1000000 stale_nak_fatal=0

0     ! write len=64 id=1 signaled
0     > write_only psn=0
1us   ! write len=64 id=2 signaled
1us   > write_only psn=1 msn=1
10us  < ack psn=0
10us  = done write id=1 status=success
11us  < ack psn=0 syndrome=0x62
12us  < ack psn=0xFFFFF0 syndrome=0x61
13us  = count stale_psn=2
14us  = state rts
15us  < ack psn=1
15us  = done write id=2 status=success

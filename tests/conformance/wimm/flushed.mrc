# Receive requests of a failed QP are flushed
requires ERR-001, ERR-002

0    ! recv id=1
0    < write_only psn=0 len=64 rkey=0
0    > ack psn=0 syndrome=0x62 msn=any
0    = done recv id=1 status=flushed

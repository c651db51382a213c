# UNEXP_EVENT for a SACKed PSN is ignored
requires NACK-001
knobs mtu=256

0     ! write len=512 id=1 signaled
0     > write_first psn=0 len=256 dmalen=512
0     > write_last psn=1 from=256 at=256 len=256 dmalen=512
10us  < sack cack=0xFFFFFF ack_offset=2 bitmap=0x2 rcvd=2
11us  < nack nack_psn=1 reason=0x19
12us  = count stale_nack=1
13us  < sack cack=1 rcvd=3
13us  < ack psn=1
13us  = done write id=1
14us  = state rts

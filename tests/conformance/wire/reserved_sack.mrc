# A SACK with every reserved bit set acknowledges: the packet's timer does not fire
requires GEN-002, SETH-006
knobs timeout=6 complete_on_sack=0

0         ! write len=64 id=1 signaled
0         > write_only psn=0
10us      < sack cack=0 rcvd=1 type=0xF next=0x1F res1=7 res2=1 res3=0xFF res4=1 cc_flags=0xF spdcid=9 dpdcid=9
70us      < ack psn=0
70us      = done write id=1 status=success

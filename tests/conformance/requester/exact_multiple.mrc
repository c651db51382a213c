# A message of exactly two path MTUs is two packets
requires SEG-001, SEG-002
knobs mtu=256

0     ! write len=512
0     > write_first psn=0 len=256 dmalen=512
0     > write_last psn=1 from=256 at=256 len=256 dmalen=512
10us  < ack psn=1

# A message of exactly one path MTU is one packet
requires SEG-001, SEG-002
knobs mtu=256

0     ! write len=256
0     > write_only psn=0 len=256
10us  < ack psn=0

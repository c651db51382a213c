# A write over IPv4, byte for byte
requires IP4-001, IP6-002
knobs ip=4

0    ! write len=13 from=3 at=5
0    > write_only psn=0 len=13 from=3 at=5 ip.ecn=2 ip.ttl=64 ip.id=0
1us  < ack psn=0

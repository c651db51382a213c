# Under SRv6 the path stands in the outer destination, the inner packet is whole
requires STACK-002, SRV6-001, SRV6-002, SRV6-003, SRV6-004, SRV6-005, MAP-002, ICRC-008
knobs srv6

0    ! write len=64
0    > write_only psn=0 outer.nh=41 outer.hop=64 outer.ecn=2
1us  < ack psn=0

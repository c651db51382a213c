# The partition key of all that is sent, writes and probes as well, is configuration
requires BTH-006
knobs pkey=0x8001 mtu=256 timeout=14

0       ! write len=640
0       > write_first psn=0 len=256 dmalen=640 pkey=0x8001
0       > write_middle psn=1 from=256 at=256 len=256 dmalen=640 pkey=0x8001
0       > write_last psn=2 from=512 at=512 len=128 dmalen=640 pkey=0x8001
100us   > probe pkey=0x8001
101us   < ack psn=2
102us   < write_only psn=0 len=64 a
102us   > sack cack=0 pkey=0x8001
102us   > ack psn=0 pkey=0x8001

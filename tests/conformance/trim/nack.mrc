# A trimmed packet draws one NACK with its PSN, EV and timestamp, and changes nothing
requires TRIM-001, TRIM-003, TRIM-005, TRIM-006, SACK-009

0    < write_only psn=5 len=1024 trim=24 ev=0x00071111
0    > nack nack_psn=5 reason=0x01 entropy=0x00071111
1us  < write_only psn=0 len=64 a
1us  > sack cack=0 rcvd=1
1us  > ack psn=0 msn=1

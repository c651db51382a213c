# The NACK of a trimmed retransmission repeats its rtx bit
requires BTH-012, TRIM-005

0    < write_only psn=0 len=1024 trim=24 rtx
0    > nack nack_psn=0 reason=0x01 rtx=1

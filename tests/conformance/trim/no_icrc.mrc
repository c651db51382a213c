# The bytes where a trailer would be are not looked at
requires TRIM-003

0    < write_only psn=0 len=1024 trim=64 icrc=bad
0    > nack nack_psn=0 reason=0x01

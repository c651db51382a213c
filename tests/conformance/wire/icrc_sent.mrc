# The trailer of sent writes is right, pad included
requires ICRC-001, ICRC-002, ICRC-003, ICRC-007

0    ! write len=1023 from=1
0    > write_only psn=0 len=1023 from=1 pad=1
1us  < ack psn=0

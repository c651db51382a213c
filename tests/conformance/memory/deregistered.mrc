# The key of memory that was deregistered opens nothing
requires VAL-017, RETH-003

0    < write_only psn=0 at=0 len=64
0    > ack psn=0
1us  ! deregister
2us  < write_only psn=1 at=64 len=64
2us  > ack psn=1 syndrome=0x62 msn=any
3us  = memory at=64 len=64 untouched

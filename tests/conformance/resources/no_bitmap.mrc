# NO_BITMAP: the packet leaves no trace and is taken when it comes again
requires RSP-007, NETH-002, BTH-012

0    ! refuse reason=0x06
1us  < write_only psn=0 len=64 a
1us  > nack nack_psn=0 reason=0x06
2us  = memory at=0 len=64 untouched
2us  ! refuse reason=0
3us  < write_only psn=0 len=64 a rtx
3us  > sack cack=0 rtx=1
3us  > ack psn=0 msn=1

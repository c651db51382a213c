# NO_RESOURCE refuses a packet
requires RSP-007, NETH-002

0    ! refuse reason=0x0A
1us  < write_only psn=0 len=64
1us  > nack nack_psn=0 reason=0x0A

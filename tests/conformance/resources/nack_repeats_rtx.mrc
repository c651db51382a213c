# A NACK repeats the rtx bit of the packet it refuses
requires BTH-012

0    ! refuse reason=0x0A
1us  < write_only psn=0 len=64 rtx
1us  > nack nack_psn=0 reason=0x0A rtx=1

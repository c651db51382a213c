# Memory without remote write permission is refused
requires VAL-017
knobs access=off

0    < write_only psn=0 len=64
0    > ack psn=0 syndrome=0x62 msn=any
1us  = memory at=0 len=64 untouched

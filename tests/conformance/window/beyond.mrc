# A PSN just above the window is refused with PSN_OOR_WINDOW and not placed
requires RSP-004
knobs mpr=1 oor_silent=0

0    < write_middle psn=128 at=0 len=1024 dmalen=4096
0    > nack nack_psn=128 reason=0x0B
1us  = memory at=0 len=1024 untouched
1us  = count psn_oor_window=1

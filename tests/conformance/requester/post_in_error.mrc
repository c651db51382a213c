# What is posted in ERROR is flushed at once
requires ERR-001
knobs state=error

0     ! write len=64 id=9
0     = done write id=9 status=flushed

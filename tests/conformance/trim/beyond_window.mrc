# A trimmed packet above the window is dropped
requires TRIM-008
knobs mpr=1

0    < write_only psn=128 len=1024 trim=24 ip.dscp=12
1us  = count trimmed=1

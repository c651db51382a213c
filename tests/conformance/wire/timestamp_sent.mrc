# Sent timestamps count 128 ns and wrap at 16 bits: here the stamp is 1
requires TS-001, TSETH-001
knobs base_rtt=10000000 timestamps=1

8388736ns  ! write len=64
8388736ns  > write_only psn=0 tsr=0 ftype=1
8400us     < ack psn=0

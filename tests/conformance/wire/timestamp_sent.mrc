# Sent timestamps count 128 ns and wrap at 16 bits
requires TS-001, TSETH-001

8388736ns  ! write len=64
8388736ns  > write_only psn=0 stamp=1 tsr=0 ftype=1
8400us     < ack psn=0

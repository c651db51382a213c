# Payload is filled to a multiple of four with zeros
requires LEN-004, BTH-004

0    ! write len=1
0    > write_only psn=0 len=1 pad=3
1us  < ack psn=0

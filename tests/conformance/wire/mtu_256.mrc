# Path MTU 256 cuts a message of 600 bytes into three packets
requires LEN-001, LEN-002, LEN-003
knobs mtu=256

0    ! write len=600
0    > write_first psn=0 len=256 dmalen=600
0    > write_middle psn=1 from=256 at=256 len=256 dmalen=600
0    > write_last psn=2 from=512 at=512 len=88 dmalen=600
1us  < ack psn=2

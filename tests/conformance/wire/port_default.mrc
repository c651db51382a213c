# By default packets go to port 4791
requires UDP-001
knobs udp_port=4791

0    ! write len=64
0    > write_only psn=0 dport=4791
1us  < ack psn=0

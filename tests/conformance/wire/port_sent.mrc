# The destination port of what is sent is configuration
requires UDP-001
knobs udp_port=4971

0    ! write len=64
0    > write_only psn=0 dport=4971
1us  < ack psn=0

# UDP port 4971 is taken like 4791
requires UDP-002, ICRC-006
knobs udp_accept=0

0    < write_only psn=0 len=64 a dport=4971
0    > sack cack=0
0    > ack psn=0

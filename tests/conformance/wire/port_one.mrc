# A target that takes one UDP port drops packets to the other
requires UDP-002
knobs udp_accept=4791 udp_port=4791

0    < write_only psn=0 len=64 a dport=4971
1us  < write_only psn=0 len=64 a
1us  > sack cack=0
1us  > ack psn=0

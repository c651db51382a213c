# The first packet's message must fit into the region, though its own bytes do
requires VAL-018

0    < write_first psn=0 at=1046528 len=1024 dmalen=2049
0    > ack psn=0 syndrome=0x62 msn=0
1us  = memory at=1046528 len=1024 untouched

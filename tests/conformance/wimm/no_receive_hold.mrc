# Without a receive request the Transport ACK waits for one
requires WIMM-006
knobs no_receive=0

0     < write_only_imm psn=0 len=64 imm=9 a
0     > sack cack=0
10us  ! recv id=4
10us  > ack psn=0 msn=1
10us  = done recv id=4 imm=9

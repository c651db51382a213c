# What came before the immediate is acknowledged meanwhile
requires WIMM-006, ACK-001
knobs no_receive=0

0     < write_only psn=0 len=64
0     > ack psn=0 msn=1
1us   < write_only_imm psn=1 len=64 imm=9
2us   = count receive_starved=1
10us  ! recv id=4
10us  > ack psn=1 msn=2
10us  = done recv id=4 imm=9

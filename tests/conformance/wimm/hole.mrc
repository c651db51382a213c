# An immediate waits until every earlier packet has come
requires WIMM-001, WIMM-003, WIMM-009, INV-006

0    ! recv id=5
1us  < write_only_imm psn=1 at=64 len=64 imm=7
2us  = count tx_ack=0
3us  < write_only psn=0 len=64
3us  > ack psn=1 msn=2
3us  = done recv id=5 imm=7 len=64
3us  = memory at=0 len=64 psn=0

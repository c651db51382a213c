# A write without timestamp is reflected as 0
requires CCS-001, TS-004, BTH-009, OPC-003

0    < write_first psn=0 len=1024 dmalen=2048 ts=1
1us  < write_last psn=1 at=1024 len=1024 dmalen=2048 ts=0 a
1us  > sack cack=1 stamp=0
1us  > ack psn=1
2us  = memory at=1024 len=1024 psn=1

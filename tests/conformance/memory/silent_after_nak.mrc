# After its NAK the QP says nothing more, whatever arrives
requires INV-004, ERR-001, ERR-002

0    < write_only psn=0 len=64 rkey=0
0    > ack psn=0 syndrome=0x62 msn=any
1us  < write_only psn=1 len=64 a
2us  < write_only psn=0 len=64 rkey=0
3us  < probe probe_id=1
4us  = count state=3

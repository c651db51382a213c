# A retransmission carries the same message numbers, addresses and bytes as the first copy
requires METH-001, RETH-002, SEG-003, INV-003
knobs mtu=256 trimming

0     ! write len=600 imm=9 from=77 at=33
0     > write_first psn=0 from=77 at=33 len=256 dmalen=600 rqmsn=0
0     > write_middle psn=1 from=333 at=289 len=256 dmalen=600 rqmsn=0
0     > write_last_imm psn=2 from=589 at=545 len=88 dmalen=600 imm=9
10us  < nack nack_psn=2 reason=0x01
10us  > write_last_imm psn=2 rtx=1
20us  < nack nack_psn=1 reason=0x01
20us  > write_middle psn=1 rtx=1
30us  < ack psn=2

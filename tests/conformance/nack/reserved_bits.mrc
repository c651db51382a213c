# Reserved bits of a NACK change nothing
requires GEN-002
knobs trimming

0     ! write len=64
0     > write_only psn=0
10us  < nack nack_psn=0 reason=0x01 type=0xF next=0x1F res1=0x7F vendor=0xEE res2=0xFF cc_flags=0xF res3=0xFF
10us  > write_only psn=0 rtx=1
20us  < ack psn=0

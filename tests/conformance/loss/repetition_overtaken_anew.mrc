# What has overtaken a packet before it was sent again says nothing about its repetition; a target that counts it repeats once more
requires LOSS-002, NACK-001
knobs mtu=256 reorder_factor=0 trimming timeout=10 reorder_min=3

0      ! write len=1536
0      > write_first psn=0 len=256 dmalen=1536
0      > write_middle psn=1..4 from=256 at=256 len=256 dmalen=1536
0      > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536
20us   < nack nack_psn=0 reason=0x01
20us   > write_first psn=0 rtx=1
90us   < sack cack=0xFFFFFF ack_offset=6 bitmap=0x3E rcvd=7
either
    95us   quiet
    100us  ! write len=1536
    100us  > write_first psn=6 msn=1 len=256 dmalen=1536
    100us  > write_middle psn=7..10 msn=1 from=256 at=256 len=256 dmalen=1536
    100us  > write_last psn=11 msn=1 from=1280 at=1280 len=256 dmalen=1536
    130us  < sack cack=0xFFFFFF ack_offset=9 bitmap=0x1FE rcvd=11
    140us  < sack cack=0xFFFFFF ack_offset=10 bitmap=0x3FE rcvd=13
    140us  > write_first psn=0 rtx=1
    150us  < ack psn=11
or
    90us   > write_first psn=0 rtx=1
    100us  ! write len=1536
    100us  > write_first psn=6 msn=1 len=256 dmalen=1536
    100us  > write_middle psn=7..10 msn=1 from=256 at=256 len=256 dmalen=1536
    100us  > write_last psn=11 msn=1 from=1280 at=1280 len=256 dmalen=1536
    130us  < sack cack=0xFFFFFF ack_offset=9 bitmap=0x1FE rcvd=11
    140us  < sack cack=0xFFFFFF ack_offset=10 bitmap=0x3FE rcvd=13
    150us  < ack psn=11
end

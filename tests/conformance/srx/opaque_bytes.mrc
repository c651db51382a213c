# The bytes of another congestion type are no count of received bytes: they open the window for no more than what the SACK acknowledges
requires SETH-010
knobs mtu=1024 window=2224 sack_threshold=2048

0          ! write len=4096
0          > write_first psn=0 len=1024 dmalen=4096
0          > write_middle psn=1 from=1024 at=1024 len=1024 dmalen=4096 a=any
10us       < sack cack=0 cc_type=5 rcvd=0x4000
either
    10us   > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=4096 a=any
    20us   < sack cack=2 rcvd=14
or
    20us   quiet
    20us   < sack cack=1 rcvd=9
    20us   > write_middle psn=2 from=2048 at=2048 len=1024 dmalen=4096 a=any
end
20us       > write_last psn=3 from=3072 at=3072 len=1024 dmalen=4096
40us       < ack psn=3

# Answers leave through a port that is up
requires REV-004, PORT-001
knobs planes=2 evs=2 mtu=256 port_mask_zero_based=0

0    ! port port=1 down
0    > ep_request op=0 mask=0x4 port=2 psn=@id
0    < ep_response psn=@id op=0
1us  < write_first psn=0 len=256 dmalen=4096 rtx
1us  > sack cack=0 rtx=1 port=2
2us  < write_middle psn=1 len=256 dmalen=4096 rtx
2us  > sack cack=1 rtx=1 port=2

# A NACK echoes entropy and timestamp of the refused packet in the control class
requires NETH-001, DSCP-002
knobs neth_cc_type=2 dscp_control=46

0    ! refuse reason=0x0A
1us  < write_only psn=0 len=64 ev=0x0102A5A5 stamp=0xBEE0
1us  > nack nack_psn=0 reason=0x0A entropy=0x0102A5A5 stamp=0xBEE0 cc_type=2 ip.dscp=46

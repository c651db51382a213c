# The congestion type of NACKs is a knob
requires NETH-004
knobs neth_cc_type=0

0    ! refuse reason=0x0A
1us  < write_only psn=0 len=64
1us  > nack nack_psn=0 reason=0x0A cc_type=0

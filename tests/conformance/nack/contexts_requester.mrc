# The knob pdcid_order=requester: spdcid of a NACK names the requester, dpdcid its responder
requires SETH-006
knobs pdcid_order=requester mpr=1 oor_silent=0

0    < write_middle psn=128 at=0 len=1024 dmalen=4096
0    > nack nack_psn=128 reason=0x0B spdcid=0xA0A1

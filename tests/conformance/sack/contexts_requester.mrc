# The knob pdcid_order=requester: spdcid of a SACK names the requester, dpdcid its responder
requires SETH-006
knobs pdcid_order=requester

0    < write_only psn=0 len=64 a
0    > sack cack=0 spdcid=0xA0A1
0    > ack psn=0

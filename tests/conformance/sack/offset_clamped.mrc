# An offset beyond 16 bits is clamped
requires SETH-005, RSP-002

0    < write_only psn=0xFF63BF len=64
0    > sack cack=0xFFFFFF ack_offset=-32768 rcvd=0
0    > ack psn=0xFFFFFF msn=0

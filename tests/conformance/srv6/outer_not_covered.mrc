# Nothing of the outer header is under the ICRC
requires ICRC-008
knobs srv6

0    < write_only psn=0 len=64 a outer.hop=2 outer.label=0x1111 outer.src=0x1
0    > sack cack=0
0    > ack psn=0

# Reserved bits of a write change nothing
requires GEN-002

0    < write_only psn=0 len=64 a mig=1 var_res=0xFF r=1 inv_res=0xF ts_res=0x7FF
0    > sack cack=0
0    > ack psn=0
1us  = memory at=0 len=64 psn=0

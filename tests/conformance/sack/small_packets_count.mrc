# A small packet counts 1024 bytes towards the trigger
requires SACK-014
knobs mtu=256 sack_threshold=4096

0    < write_first psn=0 len=256 dmalen=4096
1us  < write_middle psn=1 at=256 len=256 dmalen=4096
2us  < write_middle psn=2 at=512 len=256 dmalen=4096
3us  < write_middle psn=3 at=768 len=256 dmalen=4096
3us  > sack cack=3

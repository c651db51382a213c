# A SACK for another reason clears the trigger count
requires SACK-007
knobs mtu=256 sack_threshold=3072

0    < write_first psn=0 len=256 dmalen=4096
1us  < write_middle psn=1 at=256 len=256 dmalen=4096 ce
1us  > sack cack=1 m=1
2us  < write_middle psn=2 at=512 len=256 dmalen=4096
3us  < write_middle psn=3 at=768 len=256 dmalen=4096
4us  < write_middle psn=4 at=1024 len=256 dmalen=4096
4us  > sack cack=4

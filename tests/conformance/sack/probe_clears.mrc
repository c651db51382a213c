# The answer to a probe clears the trigger count, as every other SACK does
requires SACK-007, SACK-005
knobs mtu=256 sack_threshold=3072

0    < write_first psn=0 len=256 dmalen=4096
1us  < write_middle psn=1 at=256 len=256 dmalen=4096
2us  < probe probe_id=7
2us  > sack cack=1 pr=1 ack_offset=7
3us  < write_middle psn=2 at=512 len=256 dmalen=4096
4us  < write_middle psn=3 at=768 len=256 dmalen=4096
5us  < write_middle psn=4 at=1024 len=256 dmalen=4096
5us  > sack cack=4 pr=0

# A frame with a wrong ICRC is dropped and changes nothing
requires VAL-010, ICRC-001

0    < write_only psn=0 len=64 a icrc=bad
1us  = count icrc=1
1us  = memory at=0 len=64 untouched
2us  < write_only psn=0 len=64 a
2us  > sack cack=0
2us  > ack psn=0

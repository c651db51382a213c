# The ICRC covers the pad: a flipped trailer is noticed on a packet with pad, a right one accepted
requires ICRC-007, ICRC-002

0    < write_only psn=0 len=13 a icrc=bad
1us  = count icrc=1
2us  < write_only psn=0 len=13 a
2us  > sack cack=0
2us  > ack psn=0

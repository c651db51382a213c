# After a timeout the packet takes another path
requires SND-004, EV-007
knobs timeout=6 base_rtt=1000000

0           ! write len=64
0           > write_only psn=0 ev=@first
65.536us    > write_only psn=0 rtx=1 ev=!@first
65.536us    > probe ev=@first
65.536us    = count ev_assumed_bad=1
70us        < ack psn=0

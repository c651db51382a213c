# An older cumulative PSN takes nothing back: a packet inside the newest window is sent again at once
requires CTL-001, SND-002
knobs mtu=256 mpr_tx=1 trimming

0     ! write len=51200
0     > write_first psn=0 len=256 dmalen=51200
0     > write_middle psn=1..126 from=256 at=256 len=256 dmalen=51200
0     > write_middle psn=127 from=32512 at=32512 len=256 dmalen=51200 a=any
10us  < sack cack=39 ack_offset=0 rcvd=60
10us  > write_middle psn=128..166 from=32768 at=32768 len=256 dmalen=51200
10us  > write_middle psn=167 from=42752 at=42752 len=256 dmalen=51200 a=any
11us  < sack cack=19 ack_offset=0 rcvd=30
12us  < nack nack_psn=166 reason=0x01
12us  > write_middle psn=166 rtx=1 a=any
13us  < ack psn=167
13us  > write_middle psn=168..198 from=43008 at=43008 len=256 dmalen=51200
13us  > write_last psn=199 from=50944 at=50944 len=256 dmalen=51200
14us  < ack psn=199

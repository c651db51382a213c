# Of six bad EVs four are probed at a time
requires RES-003
knobs evs=8 mtu=256 base_rtt=1000000 probe_interval=10240000 probe_limit=10000

0            ! write len=1536
0            > write_first psn=0 len=256 dmalen=1536 ev=@a
0            > write_middle psn=1 from=256 at=256 len=256 dmalen=1536 ev=@b
0            > write_middle psn=2 from=512 at=512 len=256 dmalen=1536 ev=@c
0            > write_middle psn=3 from=768 at=768 len=256 dmalen=1536 ev=@d
0            > write_middle psn=4 from=1024 at=1024 len=256 dmalen=1536 ev=@e
0            > write_last psn=5 from=1280 at=1280 len=256 dmalen=1536 ev=@f
1us          < sack cack=5 m=2 entropy=@a rcvd=9
1us          < sack cack=5 m=2 entropy=@b rcvd=9
1us          < sack cack=5 m=2 entropy=@c rcvd=9
1us          < sack cack=5 m=2 entropy=@d rcvd=9
1us          < sack cack=5 m=2 entropy=@e rcvd=9
1us          < sack cack=5 m=2 entropy=@f rcvd=9
2us          < ack psn=5
81ms..82ms   > probe
81ms..82ms   > probe
81ms..82ms   > probe
81ms..82ms   > probe
82.5ms       quiet

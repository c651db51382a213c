# The knob ev_high_half_in_sport puts the high half of a sent EV into the source port
requires EVW-002
knobs ev_high_half_in_sport evs=1

0    ! write len=64
0    > write_only psn=0 sport=0 ip.label=0
1us  < ack psn=0

# A verdict of 3 is none: the EV stays in rotation, round after round
requires SETH-003, EV-001
knobs evs=2 mtu=256 base_rtt=100000000

repeat n=0..9
    +1us   ! write len=64
           > write_only psn={n*4} msn={n*3} ev=@a{n}
    +1us   < sack cack={n*4} m=3 rcvd={n*6+1}
           < ack psn={n*4}
    +1us   ! write len=64
           > write_only psn={n*4+1} msn={n*3+1} ev=!@a{n}
    +1us   < ack psn={n*4+1}
    +1us   ! write len=512
           > write_first psn={n*4+2} len=256 dmalen=512 msn={n*3+2}
           > write_last psn={n*4+3} from=256 at=256 len=256 dmalen=512 msn={n*3+2}
           = paths psn={n*4+2}..{n*4+3} distinct=2
    +1us   < ack psn={n*4+3}
end

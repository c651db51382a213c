# The next packet after a mark does not take the marked EV, whatever its turn in the rotation
requires EV-002, SEL-003
knobs evs=2 mtu=256 skip_time=0 base_rtt=100000000

repeat n=0..15
    +1us   ! write len=64
           > write_only psn={n*3} msn={n*2} ev=@a{n}
    +1us   < sack cack={n*3} m=1 rcvd={n*6+1}
           < ack psn={n*3}
    +1us   ! write len=512
           > write_first psn={n*3+1} len=256 dmalen=512 msn={n*2+1} ev=!@a{n}
           > write_last psn={n*3+2} from=256 at=256 len=256 dmalen=512 msn={n*2+1}
    +1us   < ack psn={n*3+2}
end

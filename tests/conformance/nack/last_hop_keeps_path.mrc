# TRIMMED_LASTHOP blames no path: the EV stays in rotation, round after round
requires NACK-003, EV-006
knobs trimming evs=2 mtu=256 base_rtt=100000000

repeat n=0..9
    +1us   ! write len=64
           > write_only psn={n*3} msn={n*2} ev=@a{n}
    +1us   < nack nack_psn={n*3} reason=0x02
           > write_only psn={n*3} msn={n*2} rtx=1
    +1us   < ack psn={n*3}
    +1us   ! write len=512
           > write_first psn={n*3+1} len=256 dmalen=512 msn={n*2+1}
           > write_last psn={n*3+2} from=256 at=256 len=256 dmalen=512 msn={n*2+1}
           = paths psn={n*3+1}..{n*3+2} distinct=2
    +1us   < ack psn={n*3+2}
end

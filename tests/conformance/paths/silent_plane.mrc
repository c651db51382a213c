# Control packets leave a plane on which three EV probes in a row went unanswered
requires REV-006, REV-003
knobs planes=2 evs=2 state=rtr mtu=256 ev_probe_rate=1000000 answers_on_silent_planes=0

repeat n=0..13
    +60us  < write_middle psn={n} len=256 dmalen=90000 rtx
    either
           > ep_request op=1 port=1 psn=@p{n}
           > sack cack={n} rtx=1
           < ep_response op=1 psn=@p{n}
    or
           > ep_request op=1 port=2
           > sack cack={n} rtx=1
    or
           > sack cack={n} rtx=1
        either
           > ep_request op=1 port=1 psn=@p{n}
           < ep_response op=1 psn=@p{n}
        or
           > ep_request op=1 port=2
        or
           quiet
        end
    end
end
repeat n=14..17
    +60us  < write_middle psn={n} len=256 dmalen=90000 rtx
    either
           > ep_request op=1
           > sack cack={n} rtx=1 port=1
    or
           > sack cack={n} rtx=1 port=1
        either
           > ep_request op=1
        or
           quiet
        end
    end
end

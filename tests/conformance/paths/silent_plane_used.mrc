# With the knob answers_on_silent_planes=1 control packets go on using a plane on which no EV probe is answered
requires REV-004, REV-003
knobs planes=2 evs=2 state=rtr mtu=256 ev_probe_rate=1000000 answers_on_silent_planes=1

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
# Two in a row: one of them leaves through the plane on which no probe is answered.
    +60us  < write_middle psn=14 len=256 dmalen=90000 rtx
either
           > ep_request op=1
    either
           > sack cack=14 rtx=1 port=1
           < write_middle psn=15 len=256 dmalen=90000 rtx
           > sack cack=15 rtx=1 port=2
    or
           > sack cack=14 rtx=1 port=2
    end
or
           > sack cack=14 rtx=1 port=1
    either
           > ep_request op=1
    or
           quiet
    end
           < write_middle psn=15 len=256 dmalen=90000 rtx
    either
           > sack cack=15 rtx=1 port=2
    or
           > ep_request op=1
           > sack cack=15 rtx=1 port=2
    end
or
           > sack cack=14 rtx=1 port=2
    either
           > ep_request op=1
    or
           quiet
    end
end

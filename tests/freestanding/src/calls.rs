//! Every entry point of `mrc-core`, called with values the optimiser cannot see.

use core::hint::black_box as opaque;

use mrc_core::cc::{AckSample, Cc, CcConfig, CongestionControl, NsccConfig};
use mrc_core::path::{
    EvEntry, EvFormat, EvIndex, EvState, Feedback, FormatMode, PathConfig, PathSet, ReverseSet, Selector, auto_profile,
    compact_profile, validate_profile,
};
use mrc_core::{
    Access, Discard, Endpoint, EvEventMask, EvMode, EvProfileConfig, EvReport, EvSpec, FrameSink, FrameSource,
    IcrcCheck, Instant, MAX_HEADER_LEN, MAX_PORTS, MemRange, OpRequest, Pd, PeerConfig, PeerHandle, PlanePath,
    PortMask, ProfileState, QpInit, Received, RetryConfig, Rng, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Tick,
    Transmit,
};
use mrc_wire::{EndpointOp, Ev, Ip, PortNum, Psn, Qpn, Rkey, ev::EvField, srv6::EvTemplate};

fn port() -> PortNum {
    PortNum::from_plane(opaque(0))
}

/// Endpoint operations.
fn operations(e: &mut Endpoint<'_>, peer: PeerHandle) {
    let request = OpRequest {
        cookie: opaque(1),
        op: opaque(EndpointOp::EvProbe),
        ports: opaque(PortMask::ALL),
        path: EvEntry::new(Ev(opaque(1)), port()),
        dscp: opaque(Some(3)),
        timeout_ns: opaque(5),
    };
    let _ = opaque(e.post_endpoint_op(peer, opaque(&request)));
    drain(e);
    e.handle_timeout(opaque(Instant::FAR));
    let _ = opaque(e.poll_endpoint_op());
    let _ = opaque(e.peer_ports(peer));
}

/// EV profiles, as a controller uses them.
fn profiles(e: &mut Endpoint<'_>) {
    let Ok(profile) = e.open_ev_profile(opaque(9)) else { return };
    let Ok(format) = EvFormat::new(opaque(FormatMode::Srv6), opaque(&[32, 16, 16])) else { return };
    let fields = opaque([EvField::fixed(32, 5), EvField { width: 16, init_val: 0, min_val: 1, max_val: 9, mask: 15 }]);
    let paths = [EvEntry::EMPTY; 4];
    for mode in [EvMode::Explicit, EvMode::Auto, EvMode::Generated] {
        let events = EvEventMask { good: opaque(true), assumed_bad: opaque(true) };
        let config = EvProfileConfig {
            mode: opaque(mode),
            format,
            fields: opaque(&fields),
            count: opaque(8),
            min_active: opaque(1),
            events,
            paths: opaque(&paths),
        };
        let _ = opaque(e.configure_ev_profile(profile, opaque(&config)));
        let spec = opaque(EvSpec { value: [1; 32], port: Some(port()) });
        let state = opaque(EvState::Denied);
        let _ = opaque(e.replace_ev(profile, opaque(&EvSpec::UNPOPULATED), &spec, state, opaque(true)));
        let _ = opaque(e.set_ev_profile_state(profile, opaque(ProfileState::Online)));
        let _ = opaque(e.set_ev_state(opaque(Instant::ZERO), profile, &spec, state, opaque(true)));
        let _ = opaque(e.set_ev_events(profile, opaque(events)));
        let mut reports = [EvReport::EMPTY; 4];
        let _ = opaque(e.query_evs(profile, opaque(1), opaque(&mut reports)));
        let _ = opaque(e.query_ev_state(profile, &spec));
        let _ = opaque(e.ev_profile_info(profile));
    }
    let _ = opaque(e.destroy_ev_profile(profile));
}

/// Tables, queue pairs, posting.
pub fn control(e: &mut Endpoint<'_>) {
    let now = opaque(Instant::ZERO);
    let pd = Pd(opaque(1));
    let range = MemRange { va: opaque(1 << 20), len: opaque(4096) };
    let mr = e.register_mr(pd, range, opaque(Access::REMOTE_WRITE));
    let key = mr.ok().and_then(|mr| e.key(mr)).unwrap_or(Rkey(0));
    let path = PlanePath { next_hop: opaque([0; 6]), outer_src: opaque(Some([0; 16])) };
    let route = match EvTemplate::new(opaque([0; 16]), opaque(&[])) {
        Ok(template) => opaque(Route::Srv6(template)),
        Err(_) => opaque(Route::Plain),
    };
    let (local, remote) = (opaque(Ip::V6([1; 16])), opaque(Ip::V6([2; 16])));
    let planes = opaque([Some(path); MAX_PORTS]);
    let peer = e.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: opaque(64) });
    let mut entries = [EvEntry::new(Ev(opaque(1)), port()); 16];
    let _ = auto_profile(opaque(&mut entries), opaque(2), opaque(16), opaque(7));
    let _ = compact_profile(opaque(&mut entries), opaque(2), opaque(8), opaque(8));
    let _ = opaque(validate_profile(opaque(&entries), opaque(PortMask::ALL)));
    let profile = e.create_ev_profile(opaque(&entries));
    let (Ok(cq), Ok(peer), Ok(ev_profile)) = (e.create_cq(), peer, profile) else { return };
    let Ok(qp) = e.create_qp(&QpInit { pd, send_cq: cq, recv_cq: cq }) else { return };
    let _ = opaque(e.modify_to_init(qp));
    let rtr = RtrAttr {
        peer,
        dest_qp: Qpn::new(opaque(77)),
        rq_psn: Psn::new(opaque(5)),
        path_mtu: opaque(4096),
        mpr_dest: opaque(1),
        ev_profile,
        trim_nack: opaque(true),
        max_wimm_dest: opaque(2),
        dynamic_mpr: opaque(true),
        svc_time: opaque(true),
    };
    let _ = opaque(e.modify_to_rtr(now, qp, opaque(&rtr)));
    let mut rts = RtsAttr::software(Psn::new(opaque(9)));
    rts.retry = opaque(RetryConfig::default());
    rts.selector = opaque(Selector::Spray);
    rts.keepalive_ns = opaque(1);
    let nscc = CcConfig::Nscc(opaque(NsccConfig::new(opaque(1), opaque(2), opaque(true))));
    let cc_profile = e.create_cc_profile(opaque(&nscc));
    rts.cc = cc_profile.ok();
    let _ = opaque(e.modify_to_rts(now, qp, opaque(&rts)));
    let wr = SendWr {
        wr_id: opaque(1),
        lkey: key.0,
        local_va: opaque(1 << 20),
        len: opaque(100),
        remote_va: opaque(5),
        rkey: Rkey(opaque(6)),
        signaled: opaque(true),
        imm: opaque(Some(7)),
        solicited: opaque(true),
    };
    let _ = opaque(e.post_send(now, qp, opaque(&wr)));
    let _ = opaque(e.post_recv(qp, opaque(4)));
    let _ = opaque(e.set_mpr(qp, opaque(1)));
    let _ = opaque(e.set_receiver_penalty(qp, opaque(1), opaque(true)));
    let _ = opaque(e.qpcc_info(qp));
    e.set_refusal(opaque(Some(mrc_wire::NackReason::NoResource)));
    let _ = opaque(e.report_place_failure(now, qp, Psn::new(opaque(3))));
    e.set_port(now, port(), opaque(false));
    opaque(e.ports_up());
    let _ = opaque(e.qp_info(qp));
    drain(e);
    let _ = opaque(e.modify_to_error(now, qp));
    let _ = opaque(e.modify_to_reset(qp));
    let _ = opaque(e.destroy_qp(qp));
    let _ = opaque(e.destroy_cq(cq));
    opaque(e.default_cc_profile());
    if let Ok(profile) = cc_profile {
        let _ = opaque(e.cc_profile(profile));
        let _ = opaque(e.modify_cc_profile(profile, opaque(&nscc)));
        let _ = opaque(e.destroy_cc_profile(profile));
    }
    operations(e, peer);
    profiles(e);
    let _ = opaque(e.remove_peer(peer));
    if let Ok(mr) = mr {
        let _ = opaque(e.deregister_mr(mr));
    }
    parts(now);
}

/// A burst of received frames.
struct Frames<'a> {
    left: u32,
    meta: RxMeta,
    frame: &'a [u8],
}

impl FrameSource for Frames<'_> {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        self.left = self.left.checked_sub(1)?;
        Some((opaque(self.meta), opaque(self.frame)))
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        opaque(result.is_ok());
    }
}

/// Frames of a turn that sends requests and answers apart.
struct Room {
    left: u32,
    headers: [u8; MAX_HEADER_LEN],
}

impl FrameSink for Room {
    fn ports(&self) -> PortMask {
        if self.left == 0 { PortMask::NONE } else { opaque(PortMask::ALL) }
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        opaque(&mut self.headers)
    }

    fn push(&mut self, transmit: Transmit) {
        self.left = self.left.saturating_sub(1);
        opaque(transmit.frame_len());
    }
}

/// A driver's turn.
pub fn drain(e: &mut Endpoint<'_>) {
    let now = opaque(Instant::ZERO);
    // SAFETY: never executed; an opaque slice stands for a frame of any content and length.
    let frame = unsafe { core::slice::from_raw_parts(opaque(core::ptr::dangling::<u8>()), opaque(0)) };
    let meta = RxMeta { port: port(), wire_len: opaque(100), icrc: opaque(IcrcCheck::Verify) };
    match e.handle_packet(now, meta, frame) {
        Ok(Received::Place(at)) => {
            opaque((at.mr.index(), at.offset, at.payload.start));
        }
        Ok(Received::Nothing) => {}
        Err(why) => {
            opaque(why.name());
        }
    }
    e.receive(now, &mut Frames { left: opaque(9), meta, frame });
    e.handle_timeout(now);
    opaque(e.next_timeout());
    let mut headers = [0u8; MAX_HEADER_LEN];
    while let Some(tx) = e.poll_transmit(now, opaque(PortMask::ALL), opaque(&mut headers)) {
        opaque(tx.frame_len());
    }
    let mut room = Room { left: opaque(9), headers };
    e.transmit_requests(now, &mut room);
    e.transmit_feedback(now, &mut room);
    if let Ok(cq) = e.create_cq() {
        while let Some(completion) = e.poll_completion(cq) {
            opaque(completion.status.text());
        }
    }
    while let Some(event) = e.poll_event() {
        opaque(event);
    }
    let stats = *e.stats();
    opaque(stats.discarded(opaque(Discard::Icrc)));
    stats.for_each(|name, value| {
        opaque((name, value));
    });
    opaque((e.limits().bytes_per_qp(), e.config().port_mask()));
    #[cfg(feature = "bad")]
    opaque(frame[opaque(3)]);
}

/// What else is public: time, randomness, paths, congestion control.
fn parts(now: Instant) {
    let cfg = opaque(PathConfig::default());
    let mut rng = Rng::new(opaque(3));
    opaque((rng.fork().below(opaque(9)), now.after(opaque(1)).since(now), Tick::at(now).elapsed_ns(now)));
    opaque((RetryConfig::default().budget_ns(), PortMask::first(opaque(3)).with(port()).without(port()).len()));
    let mut slots = [mrc_core::path::EvSlot::EMPTY; 8];
    let mut order = [0u16; 8];
    let (slots, order) = (opaque(&mut slots[..]), opaque(&mut order[..]));
    let entries = [EvEntry::new(Ev(opaque(1)), port()); 8];
    let mut set = PathSet::EMPTY;
    let ports = opaque(PortMask::ALL);
    let _ = opaque(set.start(slots, order, opaque(&entries), &cfg, opaque(Selector::Spray), ports, &mut rng));
    opaque(set.select(now, slots, order, ports, &cfg, &mut rng));
    opaque(set.select_other(now, slots, order, ports, Ev(opaque(1)), &cfg, &mut rng));
    let index = EvIndex(opaque(2));
    opaque(set.find(slots, opaque(Some(index)), Ev(opaque(1))));
    opaque(set.choice(slots, index));
    opaque(set.on_feedback(now, slots, order, index, opaque(Feedback::Timeout), &cfg, &mut rng));
    let _ = opaque(set.set_denied(slots, order, index, &mut rng));
    let _ = opaque(set.set_good(slots, order, index, &mut rng));
    set.set_usable_ports(ports);
    opaque(set.poll_probe(now, slots, ports, &cfg, opaque(true)));
    opaque((set.next_timeout(), set.counts(), set.universe()));
    let mut reverse = ReverseSet::new();
    reverse.start(opaque(&entries), &mut rng);
    reverse.redraw(opaque(&entries), &mut rng);
    if let Some(choice) = opaque(reverse.pick(ports)) {
        reverse.learn(choice);
        reverse.on_probe_answered(choice);
    }
    reverse.on_data_received();
    reverse.on_data_sent();
    opaque(reverse.poll_probe(now, opaque(&entries), ports, opaque(5), &mut rng));
    reverse.on_probe_lost(port(), Ev(opaque(1)), opaque(&entries), opaque(true), &mut rng);
    reverse.postpone(now, opaque(5));
    let config = opaque(CcConfig::default());
    let mut cc = opaque(Cc::new(&config, opaque(4184), now));
    cc.set_mtu(&config, opaque(4184));
    opaque((cc.base_rtt_ns(), cc.avg_delay_ns()));
    let ack = AckSample { newly_bytes: opaque(1), marked: opaque(true), rtt_ns: None, penalty: 0, restore: true };
    cc.on_ack(now, opaque(&ack));
    cc.on_nack(now, opaque(1), opaque(true), opaque(None));
    cc.on_loss(now, opaque(1));
    cc.on_unloss(opaque(1));
    cc.on_send(opaque(1));
    cc.on_base_rtt(opaque(1));
    cc.on_settled(opaque(1));
    opaque((cc.can_send(), cc.cwnd_bytes(), cc.inflight_bytes()));
}

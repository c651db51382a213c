//! The engines of a world, made and connected as a schedule's set-up says.

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, EventMask, Instant, Limits, MAX_PORTS, MemRange, MrHandle,
    OwnedStorage, Pd, PeerConfig, PeerHandle, PlacementMode, PlanePath, PortConfig, QpHandle, QpInit, Route, RtrAttr,
    RtsAttr, Trimming,
};
use mrc_wire::{Ev, Ip, PortNum, Psn};

use crate::schedule::{MEMORY, Setup, WIDEST};

/// Where each side's memory begins.
pub(crate) const VA: u64 = 0x1000_0000;
pub(crate) const SEND_QUEUE: usize = 8;
pub(crate) const RECV_QUEUE: usize = 4;
/// Longer than any schedule.
pub(crate) const NEVER_NS: u64 = 1 << 50;

pub(crate) fn address(side: usize, v4: bool) -> Ip {
    if v4 {
        Ip::V4([192, 0, 2, 1 + side as u8])
    } else {
        Ip::V6([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 + side as u8])
    }
}

pub(crate) fn limits(setup: &Setup) -> Limits {
    Limits {
        qps: 1,
        mpr: WIDEST.into(),
        send_queue: SEND_QUEUE,
        recv_queue: RECV_QUEUE,
        wimm: 4,
        evs: 8,
        active_evs: 8,
        cqs: 1,
        cq_depth: setup.cq_depth,
        mrs: 1,
        peers: 1,
        ev_profiles: 1,
        profile_evs: 8,
        events: 4,
        ..Limits::default()
    }
}

pub(crate) fn engine<'s>(
    setup: &Setup,
    side: usize,
    storage: &'s mut OwnedStorage,
) -> (Endpoint<'s>, QpHandle, CqHandle, MrHandle) {
    let mut cfg = EndpointConfig {
        sack_gen_threshold: setup.sack_gen_threshold,
        merge_sacks: setup.merge_sacks,
        tack_within_message: setup.tack_within_message,
        ask_each_message: setup.ask_each_message,
        turn_bytes: setup.turn_bytes,
        oor_silent: setup.oor_silent,
        complete_on_sack: setup.complete_on_sack,
        retry_strict: setup.retry_strict,
        msn_start: setup.first_msn,
        rqmsn_start: setup.first_msn,
        timestamps: setup.timestamps,
        ctl_ect: setup.ctl_ect,
        always_skip_after: setup.always_skip_after,
        no_receive: setup.no_receive,
        tail_retry_lenient: setup.tail_retry_lenient,
        tail_retry_paced: setup.tail_retry_paced,
        silent_packets: setup.silent_packets,
        placement: if setup.delayed_placement { PlacementMode::Reported } else { PlacementMode::BeforePoll },
        events: EventMask::NONE,
        cc: setup.congestion_control(),
        // Port Status Updates go when a port changes, once.
        port_update_on_rts: false,
        port_update_rto_ns: NEVER_NS,
        // Found by their own tests; frames of theirs would stand between those of the schedule.
        ev_probe_rate_limit: 0,
        ..EndpointConfig::default()
    };
    cfg.gids[0] = Some(address(side, setup.v4));
    for port in cfg.ports.iter_mut().take(2) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), setup.seed ^ side as u64).unwrap();
    let cq = engine.create_cq().unwrap();
    let range = MemRange { va: VA, len: 2 * MEMORY as u64 };
    let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    (engine, qp, cq, mr)
}

pub(crate) fn connect(
    setup: &Setup,
    side: usize,
    engine: &mut Endpoint<'_>,
    qp: QpHandle,
    peer_qp: QpHandle,
) -> PeerHandle {
    let mut planes = [None; MAX_PORTS];
    for plane in planes.iter_mut().take(2) {
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let (local, remote) = (address(side, setup.v4), address(1 - side, setup.v4));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).unwrap();
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 8];
    compact_profile(&mut entries, 2, 4, 8).unwrap();
    let profile = engine.create_ev_profile(&entries).unwrap();
    let now = Instant::from_nanos(setup.start_ns);
    let rtr = RtrAttr {
        path_mtu: setup.mtu,
        mpr_dest: setup.mpr_dest,
        trim_nack: setup.trim_nack,
        max_wimm_dest: setup.max_wimm_dest,
        dynamic_mpr: setup.dynamic_mpr,
        svc_time: setup.svc_time,
        ..RtrAttr::software(peer, peer_qp.qpn(), Psn::new(setup.first_psn[1 - side]), profile)
    };
    engine.modify_to_rtr(now, qp, &rtr).unwrap();
    let mut rts = RtsAttr::software(Psn::new(setup.first_psn[side]));
    rts.mpr = setup.mpr;
    rts.retry = setup.retry;
    rts.trimming = if setup.trimming { Trimming::On } else { Trimming::Off };
    rts.base_rtt_ns = setup.base_rtt_ns;
    rts.target_delay_ns = setup.target_delay_ns;
    rts.max_wimm = setup.max_wimm;
    rts.dynamic_mpr = setup.dynamic_mpr;
    rts.reorder_pkts_min = setup.reorder_pkts_min;
    rts.reorder_factor = setup.reorder_factor;
    rts.reorder_delay_ns = setup.reorder_delay_ns;
    rts.reorder_tolerance = setup.reorder_tolerance;
    rts.reorder_floor_ns = setup.reorder_floor_ns;
    rts.probe_rate_limit_ns = setup.probe_rate_limit_ns;
    rts.paths.loss_ev_action = setup.loss_ev_action;
    rts.paths.loss_streak = setup.loss_streak;
    rts.paths.plane_lead = setup.plane_lead;
    rts.paths.resurrect_probes = setup.resurrect_probes;
    rts.paths.relapse_backoff = setup.relapse_backoff;
    rts.paths.skip_mode = setup.skip_mode;
    engine.modify_to_rts(now, qp, &rts).unwrap();
    peer
}

impl Setup {
    fn congestion_control(&self) -> mrc_core::cc::CcConfig {
        match self.window_bytes {
            None => mrc_core::cc::CcConfig::None,
            Some(bytes) => mrc_core::cc::CcConfig::Fixed { window_bytes: bytes as u32 },
        }
    }
}

//! C structs to the engine's types and back. Everything from C is checked here; nothing here is unsafe.

use mrc_core::{
    CcProfileHandle, Completion, CqHandle, ErrorCause, EvProfileHandle, Event, EventMask, IcrcCheck, Limits, LossCause,
    MrHandle, Operation, PeerConfig, PeerHandle, Placement, PlanePath, PortMask, QpHandle, QpInfo, QpState,
    RetryConfig, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status, Transmit, Trimming,
    cc::{CcConfig, NsccConfig},
    path::{EvEntry, EvIndex, EvState, LossEvAction, MAX_FIELDS, PathConfig, SkipMode},
};
use mrc_wire::{
    Ev, Ip, PortNum, Psn, Qpn, Rkey,
    srv6::{CopyOp, EvTemplate},
};

use crate::{
    codes::*,
    fault::{Fault, fault, text},
    selector::{published, selector},
    types::*,
};

const _: () = {
    assert!(MRC_CORE_MAX_PORTS == mrc_core::MAX_PORTS);
    assert!(MRC_CORE_MAX_HEADER_LEN == mrc_core::MAX_HEADER_LEN);
    assert!(MRC_CORE_EVENTS_QP_ERROR == EventMask::QP_ERROR.bits());
    assert!(MRC_CORE_EVENTS_EV == EventMask::EV.bits());
    assert!(MRC_CORE_EVENTS_EV_SKIP == EventMask::EV_SKIP.bits());
    assert!(MRC_CORE_EVENTS_PORT == EventMask::PORT.bits());
    assert!(MRC_CORE_EVENTS_QP_STATE == EventMask::QP_STATE.bits());
    assert!(MRC_CORE_EVENTS_LOSS == EventMask::LOSS.bits());
    assert!(MRC_CORE_EVENTS_DISCARD == EventMask::DISCARD.bits());
    assert!(MRC_CORE_EVENTS_PATH == EventMask::PATH.bits());
    assert!(MRC_CORE_MAX_EV_FIELDS == MAX_FIELDS);
    assert!(MRC_CORE_ENTRY_ANY == EvIndex::NONE.0);
};

pub(crate) const fn range(what: &'static str) -> Fault {
    fault(MRC_CORE_E_RANGE, what)
}

pub(crate) fn some<T>(flag: u8, value: T) -> Option<T> {
    if flag == 0 { None } else { Some(value) }
}

pub(crate) fn limits_of(limits: &mrc_core_limits) -> Limits {
    Limits {
        qps: limits.qps as usize,
        mpr: limits.mpr as usize,
        tx_packets: limits.tx_packets as usize,
        send_queue: limits.send_queue as usize,
        recv_queue: limits.recv_queue as usize,
        wimm: limits.wimm as usize,
        evs: limits.evs as usize,
        active_evs: limits.active_evs as usize,
        cqs: limits.cqs as usize,
        cq_depth: limits.cq_depth as usize,
        mrs: limits.mrs as usize,
        peers: limits.peers as usize,
        planes: limits.planes as usize,
        srv6_peers: limits.srv6_peers as usize,
        ev_profiles: limits.ev_profiles as usize,
        profile_evs: limits.profile_evs as usize,
        cc_profiles: limits.cc_profiles as usize,
        qpccs: limits.qpccs as usize,
        refusals: limits.refusals as usize,
        events: limits.events as usize,
    }
}

pub(crate) fn limits_default() -> mrc_core_limits {
    let limits = Limits::default();
    mrc_core_limits {
        qps: limits.qps as u32,
        mpr: limits.mpr as u32,
        tx_packets: limits.tx_packets.min(u32::MAX as usize) as u32,
        send_queue: limits.send_queue as u32,
        recv_queue: limits.recv_queue as u32,
        wimm: limits.wimm as u32,
        evs: limits.evs as u32,
        active_evs: limits.active_evs as u32,
        cqs: limits.cqs as u32,
        cq_depth: limits.cq_depth as u32,
        mrs: limits.mrs as u32,
        peers: limits.peers as u32,
        planes: limits.planes as u32,
        srv6_peers: limits.srv6_peers.min(u32::MAX as usize) as u32,
        ev_profiles: limits.ev_profiles as u32,
        profile_evs: limits.profile_evs as u32,
        cc_profiles: limits.cc_profiles as u32,
        qpccs: limits.qpccs as u32,
        refusals: limits.refusals as u32,
        events: limits.events as u32,
    }
}

pub(crate) fn ip(ip: &mrc_core_ip, what: &'static str) -> Result<Option<Ip>, Fault> {
    let [a, b, c, d, ..] = ip.bytes;
    match ip.version {
        0 => Ok(None),
        4 => Ok(Some(Ip::V4([a, b, c, d]))),
        6 => Ok(Some(Ip::V6(ip.bytes))),
        _ => Err(range(what)),
    }
    .and_then(|ip| if ip.is_some_and(|ip| !is_unicast(ip)) { Err(range(what)) } else { Ok(ip) })
}

/// Whether this is the address of one host: neither all zeros nor multicast.
fn is_unicast(ip: Ip) -> bool {
    !matches!(ip, Ip::V4([0, 0, 0, 0] | [0xE0..=0xEF, ..]) | Ip::V6([0xFF, ..])) && ip != Ip::V6([0; 16])
}

/// A set of ports; bit 0 names none, and whoever sets it counts ports from 0.
pub(crate) fn port_mask(bits: u32) -> Result<PortMask, Fault> {
    if bits & 1 != 0 {
        return Err(range("ports"));
    }
    Ok(PortMask::from_bits(bits))
}

/// What an Ethernet address must be to stand in a frame: that of one station.
pub(crate) fn mac(mac: [u8; 6], what: &'static str) -> Result<[u8; 6], Fault> {
    let [first, ..] = mac;
    if mac == [0; 6] || first & 1 != 0 { Err(range(what)) } else { Ok(mac) }
}

/// The same for an IPv6 address where there is one.
pub(crate) fn set(has: u8, address: [u8; 16], what: &'static str) -> Result<Option<[u8; 16]>, Fault> {
    if has != 0 && !is_unicast(Ip::V6(address)) { Err(range(what)) } else { Ok(some(has, address)) }
}

pub(crate) fn port(number: u8) -> Result<PortNum, Fault> {
    PortNum::new(number).ok_or(range("port"))
}

pub(crate) fn cc(c: &mrc_core_cc) -> Result<CcConfig, Fault> {
    match c.algorithm {
        MRC_CORE_CC_FIXED => Ok(CcConfig::Fixed { window_bytes: c.window_bytes }),
        MRC_CORE_CC_NONE => Ok(CcConfig::None),
        MRC_CORE_CC_NSCC => Ok(CcConfig::Nscc(NsccConfig {
            rate_bps: c.rate_bps,
            base_rtt_ns: c.base_rtt_ns,
            target_delay_ns: c.target_delay_ns,
            fi_bytes: c.fi_bytes,
            eta_bytes: c.eta_bytes,
            fi_scale_q16: c.fi_scale_q16,
            gamma_q16: c.gamma_q16,
            max_md_jump_q16: c.max_md_jump_q16,
            qa_threshold_ns: c.qa_threshold_ns,
            adjust_bytes: c.adjust_bytes,
            adjust_period_ns: c.adjust_period_ns,
            max_cwnd_bytes: c.max_cwnd_bytes,
            clear_delay_ns: c.clear_delay_ns,
            qa_gate: c.qa_gate,
            trimming: c.trimming != 0,
            disable_qa: c.disable_qa != 0,
            disable_rtt_probe: c.disable_rtt_probe != 0,
            window_follows_rtt: c.window_follows_rtt != 0,
            crowds: c.crowds != 0,
            avg_weight_q16: c.avg_weight_q16,
            probe_shortfall_ns: c.probe_shortfall_ns,
        })),
        _ => Err(range("algorithm")),
    }
}

pub(crate) fn cc_default() -> mrc_core_cc {
    cc_of(&CcConfig::default())
}

/// A profile in the words of C, with defaults where its algorithm has no parameter.
pub(crate) fn cc_of(config: &CcConfig) -> mrc_core_cc {
    let fixed = |config: &CcConfig| match config {
        CcConfig::Fixed { window_bytes } => Some(*window_bytes),
        _ => None,
    };
    let (algorithm, nscc) = match config {
        CcConfig::Fixed { .. } => (MRC_CORE_CC_FIXED, NsccConfig::new(0, 0, false)),
        CcConfig::Nscc(nscc) => (MRC_CORE_CC_NSCC, *nscc),
        _ => (MRC_CORE_CC_NONE, NsccConfig::new(0, 0, false)),
    };
    mrc_core_cc {
        window_bytes: fixed(config).or_else(|| fixed(&CcConfig::default())).unwrap_or(0),
        algorithm,
        avg_weight_q16: nscc.avg_weight_q16,
        probe_shortfall_ns: nscc.probe_shortfall_ns,
        rate_bps: nscc.rate_bps,
        base_rtt_ns: nscc.base_rtt_ns,
        target_delay_ns: nscc.target_delay_ns,
        fi_bytes: nscc.fi_bytes,
        eta_bytes: nscc.eta_bytes,
        fi_scale_q16: nscc.fi_scale_q16,
        gamma_q16: nscc.gamma_q16,
        max_md_jump_q16: nscc.max_md_jump_q16,
        qa_threshold_ns: nscc.qa_threshold_ns,
        adjust_bytes: nscc.adjust_bytes,
        adjust_period_ns: nscc.adjust_period_ns,
        max_cwnd_bytes: nscc.max_cwnd_bytes,
        clear_delay_ns: nscc.clear_delay_ns,
        qa_gate: nscc.qa_gate,
        trimming: nscc.trimming.into(),
        disable_qa: nscc.disable_qa.into(),
        disable_rtt_probe: nscc.disable_rtt_probe.into(),
        window_follows_rtt: nscc.window_follows_rtt.into(),
        crowds: nscc.crowds.into(),
    }
}

pub(crate) fn peer_config(c: &mrc_core_peer_config) -> Result<PeerConfig, Fault> {
    let route = match c.route {
        MRC_CORE_ROUTE_PLAIN => Route::Plain,
        MRC_CORE_ROUTE_SRV6 => {
            let zero = CopyOp { ev_lsb: 0, width: 0, dst_msb_offset: 0 };
            let mut ops = [zero; MRC_CORE_MAX_COPY_OPS];
            for (to, from) in ops.iter_mut().zip(&c.ops) {
                *to = CopyOp { ev_lsb: from.ev_lsb, width: from.width, dst_msb_offset: from.dst_msb_offset };
            }
            let used = ops.get(..c.copy_ops as usize).ok_or(range("copy_ops"))?;
            Route::Srv6(EvTemplate::new(c.base, used).map_err(|_| range("ops"))?)
        }
        MRC_CORE_ROUTE_SRV6_ENTRY => Route::Srv6Entry,
        _ => return Err(range("route")),
    };
    let mut planes = [None; MRC_CORE_MAX_PORTS];
    for (to, from) in planes.iter_mut().zip(&c.planes) {
        if from.present == 0 {
            continue;
        }
        *to = Some(PlanePath {
            next_hop: mac(from.next_hop, "next_hop")?,
            outer_src: set(from.has_outer_src, from.outer_src, "outer_src")?,
        });
    }
    if c.hop_limit == 0 {
        return Err(range("hop_limit"));
    }
    let local = ip(&c.local, "local")?.ok_or(range("local"))?;
    // A packet has addresses of one family.
    let remote = ip(&c.remote, "remote")?.filter(|remote| remote.is_v6() == local.is_v6()).ok_or(range("remote"))?;
    Ok(PeerConfig { local, remote, planes, route, hop_limit: c.hop_limit })
}

pub(crate) fn ev_entry(c: &mrc_core_ev_entry) -> Result<EvEntry, Fault> {
    let mut entry = EvEntry::new(Ev(c.ev), port(c.port)?);
    entry.denied = c.denied != 0;
    entry.dst = some(c.has_dst, c.dst);
    entry.segment = some(c.has_segment, c.segment);
    Ok(entry)
}

pub(crate) fn qp(c: mrc_core_qp) -> QpHandle {
    QpHandle::from_parts(c.index, Qpn::new(c.qpn))
}

pub(crate) fn mr(c: mrc_core_mr) -> MrHandle {
    MrHandle::from_parts(c.index, c.generation)
}

pub(crate) fn mr_of(mr: MrHandle) -> mrc_core_mr {
    mrc_core_mr { index: mr.index() as u32, generation: mr.generation() }
}

pub(crate) fn cq(c: mrc_core_cq) -> CqHandle {
    CqHandle::from_parts(c.index, c.generation)
}

/// A number of 24 bits, as PSNs and QP numbers are on the wire.
fn bits24(value: u32, what: &'static str) -> Result<u32, Fault> {
    if value > 0xFF_FFFF { Err(range(what)) } else { Ok(value) }
}

pub(crate) fn rtr(c: &mrc_core_rtr) -> Result<RtrAttr, Fault> {
    Ok(RtrAttr {
        path_mtu: c.path_mtu,
        mpr_dest: c.mpr_dest,
        trim_nack: c.trim_nack != 0,
        max_wimm_dest: c.max_wimm_dest,
        dynamic_mpr: c.dynamic_mpr != 0,
        svc_time: c.svc_time != 0,
        private_stamps_us: c.private_stamps_us != 0,
        ..RtrAttr::software(
            PeerHandle::from_parts(c.peer.index, c.peer.generation),
            Qpn::new(bits24(c.dest_qp, "dest_qp")?),
            Psn::new(bits24(c.rq_psn, "rq_psn")?),
            EvProfileHandle::from_parts(c.ev_profile.index, c.ev_profile.generation),
        )
    })
}

pub(crate) fn rtr_default() -> mrc_core_rtr {
    let none = (PeerHandle::from_index(0), EvProfileHandle::from_index(0));
    let rtr = RtrAttr::software(none.0, Qpn::new(0), Psn::new(0), none.1);
    mrc_core_rtr {
        peer: mrc_core_peer { index: 0, generation: 0 },
        ev_profile: mrc_core_ev_profile { index: 0, generation: 0 },
        dest_qp: 0,
        rq_psn: 0,
        path_mtu: rtr.path_mtu,
        max_wimm_dest: rtr.max_wimm_dest,
        mpr_dest: rtr.mpr_dest,
        trim_nack: rtr.trim_nack.into(),
        dynamic_mpr: rtr.dynamic_mpr.into(),
        svc_time: rtr.svc_time.into(),
        private_stamps_us: rtr.private_stamps_us.into(),
    }
}

pub(crate) fn rts(c: &mrc_core_rts, limits: &Limits) -> Result<RtsAttr, Fault> {
    // The engine would do with less; a caller who asks for more than there is memory has made a mistake.
    let spread = matches!(c.paths.selector, MRC_CORE_SELECT_SPRAY | MRC_CORE_SELECT_OBLIVIOUS | MRC_CORE_SELECT_REPS);
    if spread && usize::from(c.paths.active) > limits.active_evs {
        return Err(range("paths.active"));
    }
    if spread && usize::from(c.paths.active).saturating_add(c.paths.backup.into()) > limits.evs {
        return Err(range("paths.backup"));
    }
    let mut rts = RtsAttr::software(Psn::new(bits24(c.sq_psn, "sq_psn")?));
    rts.mpr = c.mpr;
    rts.retry = RetryConfig { timeout: c.timeout, linear: c.retry_linear, exponential: c.retry_exponential };
    rts.trimming = if c.trimming == 0 { Trimming::Off } else { Trimming::On };
    rts.cc = Some(CcProfileHandle::from_parts(c.cc_profile.index, c.cc_profile.generation));
    rts.selector = selector(&c.paths)?;
    rts.paths = PathConfig {
        active: c.paths.active,
        backup: c.paths.backup,
        ev_min_active: c.paths.ev_min_active,
        probe_interval_ns: c.paths.probe_interval_ns,
        resurrect_probes: c.paths.resurrect_probes,
        bad_probes_outstanding: c.paths.bad_probes_outstanding,
        loss_streak: c.paths.loss_streak,
        plane_lead: c.paths.plane_lead,
        skip_mode: match c.paths.skip_mode {
            MRC_CORE_SKIP_ROTATION => SkipMode::Rotation,
            MRC_CORE_SKIP_TIME => SkipMode::Time { ns: c.paths.skip_ns },
            _ => return Err(range("skip_mode")),
        },
        loss_ev_action: match c.paths.loss_ev_action {
            MRC_CORE_LOSS_BY_TRIMMING => LossEvAction::ByTrimming,
            MRC_CORE_LOSS_ASSUMED_BAD => LossEvAction::AssumedBad,
            MRC_CORE_LOSS_SKIP => LossEvAction::Skip,
            MRC_CORE_LOSS_NONE => LossEvAction::None,
            _ => return Err(range("loss_ev_action")),
        },
        last_resort: c.paths.last_resort != 0,
        last_resort_unpaced: c.paths.last_resort_unpaced != 0,
        marked_probe_good: c.paths.marked_probe_good != 0,
        skip_extends: c.paths.skip_extends != 0,
        reuse_nacked_ev: c.paths.reuse_nacked_ev != 0,
        relapse_backoff: c.paths.relapse_backoff != 0,
        ..rts.paths
    };
    rts.base_rtt_ns = c.base_rtt_ns;
    rts.target_delay_ns = c.target_delay_ns;
    rts.reorder_pkts_min = c.reorder_pkts_min;
    rts.reorder_factor = c.reorder_factor;
    rts.probe_rate_limit_ns = c.probe_rate_limit_ns;
    rts.keepalive_ns = c.keepalive_ns;
    rts.reorder_delay_ns = c.reorder_delay_ns;
    rts.tail_probe_ns = c.tail_probe_ns;
    rts.max_wimm = c.max_wimm;
    rts.dynamic_mpr = c.dynamic_mpr != 0;
    rts.reorder_tolerance = c.reorder_tolerance;
    rts.reorder_floor_ns = c.reorder_floor_ns;
    rts.exponential_from_t0 = c.exponential_from_t0 != 0;
    rts.blame_silence = c.blame_silence != 0;
    Ok(rts)
}

pub(crate) fn rts_default(sq_psn: u32) -> mrc_core_rts {
    let rts = RtsAttr::software(Psn::new(sq_psn));
    let paths = &rts.paths;
    let (hopper, flowbender) = published();
    mrc_core_rts {
        base_rtt_ns: rts.base_rtt_ns,
        target_delay_ns: rts.target_delay_ns,
        probe_rate_limit_ns: rts.probe_rate_limit_ns,
        keepalive_ns: rts.keepalive_ns,
        reorder_delay_ns: rts.reorder_delay_ns,
        tail_probe_ns: rts.tail_probe_ns,
        paths: mrc_core_paths {
            probe_interval_ns: paths.probe_interval_ns,
            skip_ns: 0,
            active: paths.active,
            backup: paths.backup,
            ev_min_active: paths.ev_min_active,
            pinned: 0,
            hopper,
            flowbender,
            selector: MRC_CORE_SELECT_SPRAY,
            resurrect_probes: paths.resurrect_probes,
            bad_probes_outstanding: paths.bad_probes_outstanding,
            loss_streak: paths.loss_streak,
            skip_mode: MRC_CORE_SKIP_ROTATION,
            loss_ev_action: MRC_CORE_LOSS_BY_TRIMMING,
            last_resort: paths.last_resort.into(),
            plane_lead: paths.plane_lead,
            last_resort_unpaced: paths.last_resort_unpaced.into(),
            marked_probe_good: paths.marked_probe_good.into(),
            skip_extends: paths.skip_extends.into(),
            reuse_nacked_ev: paths.reuse_nacked_ev.into(),
            relapse_backoff: paths.relapse_backoff.into(),
        },
        sq_psn,
        cc_profile: mrc_core_cc_profile { index: 0, generation: 0 },
        reorder_pkts_min: rts.reorder_pkts_min,
        reorder_factor: rts.reorder_factor,
        max_wimm: rts.max_wimm,
        mpr: rts.mpr,
        trimming: 0,
        timeout: rts.retry.timeout,
        retry_linear: rts.retry.linear,
        retry_exponential: rts.retry.exponential,
        dynamic_mpr: rts.dynamic_mpr.into(),
        reorder_floor_ns: rts.reorder_floor_ns,
        reorder_tolerance: rts.reorder_tolerance,
        exponential_from_t0: rts.exponential_from_t0.into(),
        blame_silence: rts.blame_silence.into(),
    }
}

pub(crate) fn send_wr(c: &mrc_core_send_wr) -> SendWr {
    SendWr {
        wr_id: c.wr_id,
        lkey: c.lkey,
        local_va: c.local_va,
        len: c.len,
        remote_va: c.remote_va,
        rkey: Rkey(c.rkey),
        signaled: c.signaled != 0,
        imm: some(c.has_imm, c.imm),
        solicited: c.solicited != 0,
    }
}

pub(crate) fn rx(c: &mrc_core_rx) -> Result<RxMeta, Fault> {
    let icrc = match c.icrc {
        MRC_CORE_ICRC_VERIFY => IcrcCheck::Verify,
        MRC_CORE_ICRC_VALID => IcrcCheck::Valid,
        MRC_CORE_ICRC_INVALID => IcrcCheck::Invalid,
        _ => return Err(range("icrc")),
    };
    Ok(RxMeta { port: port(c.port)?, wire_len: c.wire_len as usize, icrc })
}

pub(crate) fn placement(at: &Placement) -> mrc_core_placement {
    mrc_core_placement {
        mr: mr_of(at.mr),
        offset: at.offset,
        token: at.token.to_bits(),
        qp: mrc_core_qp { index: at.qp.index() as u32, qpn: at.qp.qpn().value() },
        psn: at.psn.value(),
        payload_start: at.payload.start as u32,
        payload_len: at.payload.len() as u32,
    }
}

pub(crate) fn nowhere() -> mrc_core_placement {
    mrc_core_placement {
        mr: mrc_core_mr { index: 0, generation: 0 },
        offset: 0,
        token: 0,
        qp: mrc_core_qp { index: 0, qpn: 0 },
        psn: 0,
        payload_start: 0,
        payload_len: 0,
    }
}

pub(crate) fn no_transmit() -> mrc_core_transmit {
    mrc_core_transmit {
        mr: mrc_core_mr { index: 0, generation: 0 },
        offset: 0,
        payload_len: 0,
        header_len: 0,
        l3_offset: 0,
        frame_len: 0,
        ev: 0,
        port: 0,
        pad: 0,
        traffic_class: 0,
    }
}

pub(crate) fn transmit(tx: &Transmit) -> mrc_core_transmit {
    let (mr, offset, payload_len) = match tx.payload {
        Some(payload) => (mr_of(payload.mr), payload.offset, payload.len),
        None => (mrc_core_mr { index: 0, generation: 0 }, 0, 0),
    };
    mrc_core_transmit {
        mr,
        offset,
        payload_len,
        header_len: tx.header_len as u32,
        l3_offset: tx.l3_offset as u32,
        frame_len: tx.frame_len() as u32,
        ev: tx.ev.0,
        port: tx.port.value(),
        pad: tx.pad,
        traffic_class: tx.traffic_class,
    }
}

pub(crate) fn completion(c: &Completion) -> mrc_core_completion {
    mrc_core_completion {
        wr_id: c.wr_id,
        since_ack_ns: c.since_ack_ns,
        qpn: c.qp.value(),
        byte_len: c.byte_len,
        first_psn: c.first_psn.value(),
        imm: c.imm.unwrap_or(0),
        last_ev: c.last_path.map_or(0, |(ev, _)| ev.0),
        last_port: c.last_path.map_or(0, |(_, port)| port.value()),
        status: match c.status {
            Status::Success => MRC_CORE_WC_SUCCESS,
            Status::LocalProtection => MRC_CORE_WC_LOCAL_PROTECTION,
            Status::Flushed => MRC_CORE_WC_FLUSHED,
            Status::RemoteInvalidRequest => MRC_CORE_WC_REMOTE_INVALID,
            Status::RemoteAccess => MRC_CORE_WC_REMOTE_ACCESS,
            Status::RemoteOperation => MRC_CORE_WC_REMOTE_OPERATION,
            Status::RetryExceeded => MRC_CORE_WC_RETRY_EXCEEDED,
            _ => MRC_CORE_WC_OTHER,
        },
        operation: match c.operation {
            Operation::Write => MRC_CORE_OP_WRITE,
            Operation::WriteImm => MRC_CORE_OP_WRITE_IMM,
            Operation::Receive => MRC_CORE_OP_RECEIVE,
        },
        has_imm: c.imm.is_some().into(),
        solicited: c.solicited.into(),
        retries: c.retries,
    }
}

fn cause_text(cause: Option<ErrorCause>) -> mrc_core_text {
    text(cause.map_or("", ErrorCause::text))
}

pub(crate) fn ev_state(state: EvState) -> u8 {
    match state {
        EvState::Good => MRC_CORE_EV_GOOD,
        EvState::Skip => MRC_CORE_EV_SKIP,
        EvState::AssumedBad => MRC_CORE_EV_ASSUMED_BAD,
        EvState::Denied => MRC_CORE_EV_DENIED,
    }
}

fn qp_state(state: QpState) -> u8 {
    match state {
        QpState::Reset => MRC_CORE_QP_RESET,
        QpState::Init => MRC_CORE_QP_INIT,
        QpState::Rtr => MRC_CORE_QP_RTR,
        QpState::Rts => MRC_CORE_QP_RTS,
        QpState::Error => MRC_CORE_QP_ERROR,
    }
}

fn loss_text(cause: LossCause) -> mrc_core_text {
    text(match cause {
        LossCause::Inferred => "later packets were acknowledged",
        LossCause::Nack(_) => "refused with a NACK",
        LossCause::Timeout => "its timer expired",
        LossCause::Tail => "its message is received but not acknowledged",
        _ => "",
    })
}

pub(crate) fn event(event: &Event) -> mrc_core_event {
    let kind = |kind| mrc_core_event {
        qpn: 0,
        ev: 0,
        psn: 0,
        discard: 0,
        cause: text(""),
        profile: mrc_core_ev_profile { index: 0, generation: 0 },
        peer: mrc_core_peer { index: 0, generation: 0 },
        ports: 0,
        dropped: 0,
        rtt_ns: 0,
        entry: 0,
        from_entry: 0,
        kind,
        port: 0,
        up: 0,
        from: 0,
        to: 0,
    };
    match *event {
        Event::QpError { qp, cause } => {
            mrc_core_event { qpn: qp.value(), cause: cause_text(Some(cause)), ..kind(MRC_CORE_EVENT_QP_ERROR) }
        }
        Event::Ev { qp, transition } => mrc_core_event {
            qpn: qp.value(),
            ev: transition.ev.0,
            port: transition.port.value(),
            from: ev_state(transition.from),
            to: ev_state(transition.to),
            ..kind(MRC_CORE_EVENT_EV)
        },
        Event::Port { port, up } => mrc_core_event { port: port.value(), up: up.into(), ..kind(MRC_CORE_EVENT_PORT) },
        Event::QpState { qp, from, to } => {
            mrc_core_event { qpn: qp.value(), from: qp_state(from), to: qp_state(to), ..kind(MRC_CORE_EVENT_QP_STATE) }
        }
        Event::Loss { qp, psn, ev, cause } => mrc_core_event {
            qpn: qp.value(),
            psn: psn.value(),
            ev: ev.0.into(),
            cause: loss_text(cause),
            ..kind(MRC_CORE_EVENT_LOSS)
        },
        Event::Discard { port, why } => {
            let fault = Fault::from(why);
            mrc_core_event {
                port: port.value(),
                discard: fault.code,
                cause: text(fault.what),
                ..kind(MRC_CORE_EVENT_DISCARD)
            }
        }
        Event::EvProfile { profile, entry, ev, port, state, dropped } => mrc_core_event {
            profile: mrc_core_ev_profile { index: profile.index() as u16, generation: profile.generation() },
            entry,
            ev: ev.0,
            port: port.value(),
            to: ev_state(state),
            dropped,
            ..kind(MRC_CORE_EVENT_EV_PROFILE)
        },
        Event::PeerPorts { peer, ports } => mrc_core_event {
            peer: mrc_core_peer { index: peer.index() as u16, generation: peer.generation() },
            ports: ports.bits(),
            ..kind(MRC_CORE_EVENT_PEER_PORTS)
        },
        Event::PathProbe { qp, path, rtt_ns, .. } => {
            mrc_core_event { qpn: qp.value(), entry: path, rtt_ns, ..kind(MRC_CORE_EVENT_PATH_PROBE) }
        }
        Event::PathSwitch { qp, from, to, .. } => {
            mrc_core_event { qpn: qp.value(), from_entry: from, entry: to, ..kind(MRC_CORE_EVENT_PATH_SWITCH) }
        }
        _ => kind(MRC_CORE_EVENT_OTHER),
    }
}

pub(crate) fn qp_info(info: &QpInfo) -> mrc_core_qp_info {
    mrc_core_qp_info {
        base_rtt_ns: info.base_rtt_ns,
        cause: cause_text(info.cause),
        dest_qp: info.dest_qp.value(),
        outstanding: info.outstanding,
        queued: info.queued,
        receives: info.receives,
        placements: info.placements,
        suspended_ports: info.evs.suspended_planes.bits(),
        evs_good: info.evs.good,
        evs_skip: info.evs.skip,
        evs_assumed_bad: info.evs.assumed_bad,
        evs_denied: info.evs.denied,
        evs_active: info.evs.active,
        state: qp_state(info.state),
        retries: info.retries,
    }
}

//! The engine's only door: the contract of a turn, polls, and the borrow of one QP with its storage. `rx` treats
//! received frames. `schedule` says whose turn it is to send, and `tx` writes what leaves; `frames` is what goes to and
//! comes from the driver with a frame. `control`, `qp_states`, `ports` and `congestion` create and modify objects; `post`
//! takes work and `completion` gives it back. `ops` is what nodes say to each other beside their QPs.

mod ahead;
mod below;
mod completion;
mod congestion;
mod control;
mod fetch;
mod frames;
mod free_qps;
mod live_update;
mod op_frames;
mod op_table;
mod ops;
mod peers;
mod placement;
mod port_status;
mod ports;
mod post;
mod profiles;
mod qp_states;
mod refused;
mod replies;
mod return_paths;
mod rx;
mod schedule;
mod shards;
mod tx;
mod walk;
mod write_in;
mod writes;

pub use below::{PlaneSlot, RouteSlot};
pub use fetch::Upcoming;
pub use frames::{FrameSource, IcrcCheck, PayloadRef, Placement, Received, RxMeta, Transmit};
pub use live_update::{Export, Import};
pub use ops::{OpAnswer, OpOutcome, OpRequest};
pub use peers::PeerSlot;
pub use placement::PlaceToken;
pub(crate) use profiles::EvProfiles;
pub use profiles::{
    EvEventMask, EvMode, EvProfileConfig, EvProfileInfo, EvProfileSlot, EvReport, EvSpec, ProfileState,
};
pub use schedule::FrameSink;
pub use shards::{Shard, ShardMessage, ShardNews};
pub use tx::MAX_HEADER_LEN;
pub(crate) use writes::WriteHead;

use mrc_wire::{PortNum, Psn};

use self::{
    below::{Below, Entries},
    free_qps::FreeQps,
    op_table::Ops,
    peers::{Masks, PeerIndex},
    walk::Walk,
    writes::ToPeer,
};

use crate::{
    cc::{CcProfile, Qpcc},
    config::{EndpointConfig, MAX_PORTS},
    cq::{Cqs, Status},
    error::{ConfigError, Discard},
    event::{ErrorCause, Event, EventMask, Events},
    first_free::FirstFree,
    mem::Regions,
    num::Counter,
    path::{EvEntry, EvSlot},
    port::PortMask,
    qp::{Qp, QpHandle, QpState},
    ready::{List, Ready},
    requester::{TxRecord, TxSide, TxWindow, TxWord, Wqe},
    responder::{Immediate, RecvWqe, Refusals, RxWord},
    rng::Rng,
    secret::{Secrets, Seed},
    stats::Stats,
    storage::{Limits, Storage},
    time::Instant,
    timer::Timers,
};

crate::handle::handle! {
    /// A registered peer. Stale once it is removed.
    PeerHandle, "peers"
}

crate::handle::handle! {
    /// An EV profile. Stale once it is destroyed.
    EvProfileHandle, "ev_profiles"
}

/// One NIC function: queue pairs, memory regions, peers, EV profiles, ports.
///
/// # Contract
/// * **A turn** is one input (`handle_packet`, `handle_timeout`, `post_send`, `set_port`), then `poll_transmit` (or `transmit`),
///   `poll_completion` and `poll_event` until `None`, then sleep until [`Endpoint::next_timeout`]. Draining late costs
///   latency, never correctness; no call but `post_endpoint_op`, whose outcomes take room, fails because another was not
///   polled. Equal instants are fine, `now` never goes back.
/// * **Idle is free**: an idle poll is O(1) whatever the number of QPs.
/// * **Bounded**: one call handles one packet or fills one frame, `transmit` as many as its sink has room for;
///   `handle_timeout` serves each QP at most once, and `call_budget` of them at most.
/// * **No payload**: `handle_packet` says where bytes go, `poll_transmit` says which bytes follow; the driver moves them
///   before it polls again, or says later that it has (`placed`).
/// * **Deterministic**: same configuration, seed and inputs, same bytes out.
#[derive(Debug)]
pub struct Endpoint<'s> {
    cfg: EndpointConfig,
    limits: Limits,
    /// `linked` and `enabled`, of the ports there are.
    up: PortMask,
    /// All there are: those of the configuration.
    ports: PortMask,
    linked: PortMask,
    enabled: PortMask,
    /// Refuse every new write for this reason.
    refusal: Option<mrc_wire::NackReason>,
    /// Of paths, which the wire shows.
    rng: Rng,
    secrets: Secrets,
    stats: Stats,
    qps: &'s mut [Qp],
    /// Lives of QPs so far, modulo 2^24 and never 0 again.
    lives: u32,
    /// Bits of a QP number that name its slot: how many, and which.
    qpn_bits: u32,
    qpn_mask: u32,
    timers: Timers<'s>,
    tx_records: &'s mut [TxRecord],
    tx_words: &'s mut [TxWord],
    rx_words: &'s mut [RxWord],
    wqes: &'s mut [Wqe],
    recvs: &'s mut [RecvWqe],
    immediates: &'s mut [Immediate],
    refusals: Refusals<'s>,
    ev_slots: &'s mut [EvSlot],
    ev_order: &'s mut [u16],
    cqs: Cqs<'s>,
    regions: Regions<'s>,
    peers: &'s mut [PeerSlot],
    planes: &'s mut [PlaneSlot],
    routes: &'s mut [RouteSlot],
    peer_index: PeerIndex,
    /// By plane: an address of ours that packets arrive at, its own one or that of the last packet which was read in full.
    arrives_at: [Option<[u8; 16]>; MAX_PORTS],
    /// What peers say of their ports, all together.
    masks: Masks,
    free_qps: FreeQps,
    free_peers: FirstFree,
    free_qpccs: FirstFree,
    free_profiles: FirstFree,
    free_cc_profiles: FirstFree,
    ops: Ops,
    walk: Walk,
    ev_entries: &'s mut [EvEntry],
    ev_profiles: EvProfiles<'s>,
    /// Changes of EV profiles so far, modulo 2^32.
    ev_edition: u32,
    cc_profiles: &'s mut [CcProfile],
    qpccs: &'s mut [Qpcc],
    events: Events<'s>,
    control: Ready,
    /// QPs with something that no congestion window holds back.
    urgent: Ready,
    /// Congestion controllers whose turn comes.
    ready: Ready,
    held_completions: Ready,
    ahead: ahead::Ahead,
}

/// The part of `slice` that belongs to element `index` when each owns `each`.
#[inline]
fn part<T>(slice: &mut [T], index: u32, each: usize) -> Option<&mut [T]> {
    // Cannot wrap: the slice holds `each` for every index in use. If it did, the part would be another one.
    slice.get_mut((index as usize).wrapping_mul(each)..)?.get_mut(..each)
}

/// Bits that tell `len` slots apart.
const fn index_bits(len: usize) -> u32 {
    usize::BITS.wrapping_sub(len.saturating_sub(1).leading_zeros())
}

impl<'s> Endpoint<'s> {
    /// An endpoint in `storage`. All randomness (keys, QP numbers, identifiers, path order) comes from `seed`: drivers draw
    /// its 16 bytes from the operating system or the device, tests and simulations take a number.
    ///
    /// # Errors
    /// A configuration value outside its range, or a slice shorter than the limits say.
    pub fn new(cfg: EndpointConfig, storage: Storage<'s>, seed: impl Into<Seed>) -> Result<Self, ConfigError> {
        let s = storage.validated()?;
        check(&cfg, s.limits.planes)?;
        s.qps.fill(Qp::EMPTY);
        s.peers.fill(PeerSlot::EMPTY);
        s.planes.fill(PlaneSlot::EMPTY);
        s.routes.fill(RouteSlot::EMPTY);
        s.qpccs.fill(Qpcc::EMPTY);
        s.cc_profiles.fill(CcProfile::EMPTY);
        if let Some(own) = s.cc_profiles.first_mut() {
            own.config = Some(cfg.cc);
        }
        let mask = cfg.events;
        // At least two: slot 0 of a single QP must still find numbers above 2 quickly.
        let qpn_bits = index_bits(s.qps.len()).min(16).max(2);
        if !cfg.shard.fits(qpn_bits) {
            return Err(ConfigError::Range { what: "shard" });
        }
        let mut secrets = Secrets::new(seed.into());
        Ok(Self {
            ports: cfg.port_mask(),
            up: cfg.port_mask(),
            linked: cfg.port_mask(),
            enabled: cfg.port_mask(),
            refusal: None,
            ops: Ops::new(&cfg, secrets.draw() as u16),
            peer_index: PeerIndex::new(secrets.draw()),
            arrives_at: cfg.ports.map(|port| port.and_then(|port| port.sid.or(port.addr)).or(cfg.gid_v6())),
            cfg,
            rng: Rng::new(secrets.draw()),
            secrets,
            stats: Stats::default(),
            qpn_bits,
            qpn_mask: !u32::MAX.wrapping_shl(qpn_bits),
            qps: s.qps,
            lives: 0,
            timers: Timers::new(s.timers),
            tx_records: s.tx_records,
            tx_words: s.tx_words,
            rx_words: s.rx_words,
            wqes: s.wqes,
            recvs: s.recvs,
            immediates: s.immediates,
            refusals: Refusals::new(s.refusals),
            ev_slots: s.ev_slots,
            ev_order: s.ev_order,
            cqs: Cqs::new(s.cqs, s.completions, s.limits.cq_depth as u32),
            regions: Regions::new(s.mrs),
            peers: s.peers,
            planes: s.planes,
            routes: s.routes,
            masks: Masks::new(),
            free_qps: FreeQps::NONE,
            free_peers: FirstFree::default(),
            free_qpccs: FirstFree::default(),
            free_profiles: FirstFree::default(),
            free_cc_profiles: FirstFree::default(),
            walk: Walk::new(),
            ev_entries: s.ev_entries,
            ev_profiles: EvProfiles::new(s.ev_profiles),
            ev_edition: 0,
            cc_profiles: s.cc_profiles,
            qpccs: s.qpccs,
            events: Events::new(s.events, mask),
            control: Ready::new(List::Control),
            urgent: Ready::new(List::Urgent),
            ready: Ready::new(List::NewData),
            held_completions: Ready::new(List::Completions),
            ahead: ahead::Ahead::NONE,
            limits: s.limits,
        })
    }

    /// Lets time pass: serves the QPs whose deadline has come, at most [`EndpointConfig::call_budget`]; so many peers, and so many
    /// QPs that have yet to hear of a change of ports or EVs. What is left is due at once ([`Endpoint::next_timeout`]).
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut left = self.cfg.call_budget;
        while left > 0
            && let Some(qp) = self.timers.pop_due(now)
        {
            left = left.saturating_sub(1);
            let usable = self.usable_ports(qp);
            if let Some(next) = self.with_tx(qp, |mut tx| tx.not_before(now, usable)).flatten() {
                self.timers.arm(qp, next);
                continue;
            }
            let testable = self.testable_ports(qp);
            let failure = self.with_tx(qp, |mut tx| tx.on_timeout(now, usable, testable)).flatten();
            if let Some(cause) = failure {
                self.fail_qp(now, qp, cause, None);
            }
            self.wake(now, qp);
        }
        if now >= self.ops.deadline() {
            self.ops_timeout(now);
        }
        self.walk(now);
    }

    /// When [`Endpoint::handle_timeout`] next has something to do; a time in the past means now.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.walk.is_open() {
            return Some(Instant::ZERO);
        }
        let ops = self.ops.deadline();
        match self.timers.earliest() {
            Some(qp) => Some(qp.min(ops)),
            None => (ops != Instant::FAR).then_some(ops),
        }
    }

    /// The oldest event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Counters since construction.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The sizes this endpoint was built with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The configuration this endpoint was built with.
    pub fn config(&self) -> &EndpointConfig {
        &self.cfg
    }

    /// Index of a live QP.
    fn index_of(&self, qp: QpHandle) -> Option<u32> {
        self.qps.get(qp.index as usize).filter(|slot| slot.used && slot.qpn == qp.qpn).map(|_| qp.index)
    }

    /// Borrows one QP's requester with its storage and its congestion controller; `None` unless it is in RTS.
    #[inline(always)]
    fn with_tx<R>(&mut self, qp: u32, f: impl FnOnce(TxSide<'_, 's>) -> R) -> Option<R> {
        self.with_tx_to(
            qp,
            #[inline(always)]
            |tx, _| f(tx),
        )
    }

    /// As [`Endpoint::with_tx`], with what it takes to write frames to the QP's peer.
    #[inline(always)]
    fn with_tx_to<R>(&mut self, qp: u32, f: impl FnOnce(TxSide<'_, 's>, Option<ToPeer<'_>>) -> R) -> Option<R> {
        let (tx, to) = self.tx_side(qp)?;
        Some(f(tx, to))
    }

    /// For a caller that hands out what it reads meanwhile.
    #[inline(always)]
    fn tx_side(&mut self, qp: u32) -> Option<(TxSide<'_, 's>, Option<ToPeer<'_>>)> {
        let l = &self.limits;
        let slot = self.qps.get_mut(qp as usize)?;
        let qpcc = self.qpccs.get_mut(slot.qpcc? as usize)?;
        let to = Below::of((self.peers, self.planes, self.routes), l, slot.peer).map(|peer| ToPeer {
            peer,
            entries: Entries::of(self.ev_entries, l, slot.ev_profile),
            regions: &self.regions,
            live: None,
        });
        let tx = TxSide {
            qp: slot,
            // The slices hold a part for each QP.
            ring: part(self.wqes, qp, l.send_queue)?,
            window: TxWindow::new(self.tx_records, self.tx_words, qp, l.records()),
            slots: part(self.ev_slots, qp, l.evs)?,
            order: part(self.ev_order, qp, l.active_evs)?,
            qpcc,
            rng: &mut self.rng,
            stats: &mut self.stats,
            events: &mut self.events,
            profiles: &mut self.ev_profiles,
            cfg: &self.cfg,
        };
        Some((tx, to))
    }

    //= INV-004
    /// Moves a QP to ERROR: what is queued flushes, what was owed is forgotten but for one NAK. `psn` names the request
    /// at fault; without it the oldest one is.
    //= ERR-001
    fn fail_qp(&mut self, now: Instant, qp: u32, cause: ErrorCause, psn: Option<Psn>) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        if slot.state == QpState::Error {
            return;
        }
        let from = slot.state;
        self.stats.states.change(slot, QpState::Error);
        slot.expected = mrc_wire::HeadImage::NONE;
        slot.cause = Some(cause);
        slot.failed_psn = psn;
        slot.failed_status = match cause {
            ErrorCause::RetryExceeded | ErrorCause::NoUsablePort | ErrorCause::PeerSilent => {
                Some(Status::RetryExceeded)
            }
            ErrorCause::RemoteInvalidRequest => Some(Status::RemoteInvalidRequest),
            ErrorCause::RemoteAccess => Some(Status::RemoteAccess),
            ErrorCause::RemoteOperation => Some(Status::RemoteOperation),
            ErrorCause::LocalProtection => Some(Status::LocalProtection),
            _ => None,
        };
        slot.silent_ns = if slot.req.was_heard { now.since(slot.req.last_heard) } else { crate::Completion::NEVER };
        slot.rsp.forget_answers(&mut self.refusals);
        let qpn = slot.qpn;
        self.leave_qpcc(qp);
        self.timers.remove(qp);
        self.stats.qp_errors.inc_by(u64::from(cause != ErrorCause::Application));
        self.events.raise(&mut self.stats, Event::QpError { qp: qpn, cause });
        self.announce(qpn, from, QpState::Error);
        self.complete(qp);
        self.deliver(qp);
    }

    fn announce(&mut self, qp: mrc_wire::Qpn, from: QpState, to: QpState) {
        self.events.raise(&mut self.stats, Event::QpState { qp, from, to });
    }

    //= ERR-004
    fn discard(&mut self, port: PortNum, why: Discard) -> Discard {
        self.stats.discard(why);
        if self.events.wants(EventMask::DISCARD) {
            self.events.raise(&mut self.stats, Event::Discard { port, why });
        }
        why
    }
}

/// What of a configuration cannot be, with storage for so many planes.
fn check(cfg: &EndpointConfig, planes: usize) -> Result<(), ConfigError> {
    if cfg.port_mask().is_empty() {
        return Err(ConfigError::Range { what: "ports" });
    }
    if cfg.ports.iter().skip(planes).any(Option::is_some) {
        return Err(ConfigError::Range { what: "planes" });
    }
    // A frame's source is one station.
    if cfg.ports.iter().flatten().any(|port| port.mac[0] & 1 != 0) {
        return Err(ConfigError::Range { what: "ports.mac" });
    }
    if cfg.gids.iter().all(Option::is_none) {
        return Err(ConfigError::Range { what: "gids" });
    }
    //= DSCP-001
    if cfg.wire.dscp.check().is_err() {
        return Err(ConfigError::Range { what: "wire.dscp" });
    }
    if !matches!(cfg.wire.bth_se_bit, 6 | 7) {
        return Err(ConfigError::Range { what: "wire.bth_se_bit" });
    }
    if !matches!(cfg.wire.eeth_op_bit, 2 | 4) {
        return Err(ConfigError::Range { what: "wire.eeth_op_bit" });
    }
    if cfg.wire.neth_cc_type > 15 {
        return Err(ConfigError::Range { what: "wire.neth_cc_type" });
    }
    // Another one says that the write succeeded, or is ignored by the peer.
    if !(0x61..=0x7F).contains(&cfg.wimm_nak_syndrome) {
        return Err(ConfigError::Range { what: "wimm_nak_syndrome" });
    }
    // With less, SACKs would not show what is missing.
    if !matches!(cfg.bitmap_reach, 63 | 64) {
        return Err(ConfigError::Range { what: "bitmap_reach" });
    }
    if cfg.call_budget == 0 {
        return Err(ConfigError::Range { what: "call_budget" });
    }
    if cfg.sack_gen_threshold == 0 {
        return Err(ConfigError::Range { what: "sack_gen_threshold" });
    }
    cfg.cc.validate().map_err(|what| ConfigError::Range { what })
}

//! The requester of one QP: what to send next, what feedback means, when to give up. Decides *what* is resent; *where*
//! is `path`'s, *how much* is `cc`'s. Writes no bytes. Source: `transport.md` 3.
//!
//! State lives in [`Requester`]; [`TxSide`] borrows it together with the QP's part of the lent storage for one call.

mod feedback;
mod held;
mod lateness;
mod loss;
mod nack;
mod nominal;
mod probes;
mod record;
mod renew;
mod reorder;
mod resend;
mod rtt;
mod send_queue;
mod series;
mod timeout;
mod wants;
mod window;

pub(crate) use feedback::Report;
pub use record::TxRecord;
pub use send_queue::{SendWr, Wqe};
pub use window::TxWord;

use lateness::Lateness;
use nominal::nominal_segment;
pub(crate) use nominal::{nominal_bytes, packets_of};
pub(crate) use probes::{ProbeTable, Wanted};
use reorder::ReorderDelay;
use rtt::BaseRtt;
pub(crate) use send_queue::{Segment, SegmentAt, SendQueue};
pub(crate) use wants::Wants;
pub(crate) use window::TxWindow;

use mrc_wire::{Ev, Psn};

use crate::num::Counter;
use crate::{
    Prefetch, Qp,
    cc::Qpcc,
    config::{EndpointConfig, RetryConfig, RtsAttr, Trimming},
    endpoint::EvProfiles,
    event::{Event, Events},
    path::{Choice, EvIndex, EvSlot, EvState, Feedback, Transition},
    rng::Rng,
    stats::Stats,
    time::Instant,
};

/// Scalars of one QP's requester (`transport.md` 3.1).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Requester {
    /// Last sign of life: what follows, or a write or probe of the peer's own.
    pub(crate) last_heard: Instant,
    /// Last SACK, NACK, Transport ACK or probe answer.
    last_answer: Instant,
    /// Highest cumulatively SACKed PSN.
    pub(crate) unack: Psn,
    /// Highest PSN sent; the next new packet takes the one after it.
    pub(crate) max_sent: Psn,
    /// Highest PSN covered by a Transport ACK.
    pub(crate) tack: Psn,
    /// Highest PSN known received.
    hi_sacked: Psn,
    /// Window in PSNs.
    pub(crate) mpr_tx: u32,
    /// Packets in state LOST.
    lost: u32,
    /// LOST packets that wait because the responder had no room for them.
    held: u32,
    prev_rcvd_units: u32,
    pub(crate) path_mtu: u32,
    next_msn: u16,
    next_rqmsn: u16,
    /// Most writes with immediate in flight.
    pub(crate) wimm_tx: u16,
    /// Writes with immediate begun and not covered by a Transport ACK.
    wimm_inflight: u16,
    /// With so many of them a request is looked at before it begins: `wimm_tx`, more than there can be where none is allowed, 0 once
    /// a request was long.
    pub(crate) begin_gate: u16,
    /// Whether there was a sign of life: until then `last_heard` is when the QP was connected.
    pub(crate) was_heard: bool,
    /// The last packet of the oldest request must be repeated.
    pub(crate) resend_tail: bool,
    dynamic_mpr: bool,
    pub(crate) retry_cnt: u8,
    resource_nacks: u8,
    pub(crate) retry: RetryConfig,
    pub(crate) trimming: Trimming,
    blame_silence: bool,
    /// A lower bound of the earliest packet deadline.
    next_scan: Instant,
    next_tail_probe: Instant,
    /// Everything of the oldest request is SACKed since then, and no Transport ACK covers it.
    tack_wait: Instant,
    /// No later than when the first of the packets that are held may leave.
    next_release: Instant,
    /// Retry the selection then: no EV was usable, or the controller pauses until then.
    pub(crate) path_retry: Instant,
    /// While no port leads to the peer: when the next retry is charged. FAR while one does, or until the first look.
    pub(crate) portless: Instant,
    pub(crate) next_probe: Instant,
    tail_probe_ns: u64,
    pub(crate) last_path: Option<Choice>,
    srtt_ns: u64,
    pub(crate) probes: ProbeTable,
    base_rtt: BaseRtt,
    target_delay_ns: u64,
    keepalive_ns: u64,
    next_keepalive: Instant,
    lateness: Lateness,
    reorder: ReorderDelay,
    reorder_pkts_min: u16,
    reorder_factor: u16,
    last_retry: Instant,
    /// Keep-alive probes since the sign of life at `keepalive_from`, or tries without a port.
    keepalive_probes: u8,
    /// Whether they could not leave, because no port was up.
    keepalive_unheard: bool,
    keepalive_from: Instant,
    /// When the QP began to send; a later sign of life shows that the peer began as well.
    started: Instant,
    pub(crate) probe_rate_limit_ns: u64,
}

/// Widest window that a SACK can offer, in PSNs.
const MOST_WINDOW: u32 = 255 * 128;

impl Requester {
    pub(crate) const IDLE: Self = Self {
        unack: Psn::new(0),
        max_sent: Psn::new(0),
        tack: Psn::new(0),
        hi_sacked: Psn::new(0),
        mpr_tx: 0,
        lost: 0,
        prev_rcvd_units: 0,
        next_msn: 0,
        next_rqmsn: 0,
        wimm_tx: 0,
        begin_gate: 0,
        wimm_inflight: 0,
        dynamic_mpr: false,
        resource_nacks: 0,
        retry_cnt: 0,
        last_retry: Instant::ZERO,
        held: 0,
        next_release: Instant::FAR,
        last_heard: Instant::ZERO,
        was_heard: false,
        last_answer: Instant::ZERO,
        next_scan: Instant::FAR,
        tack_wait: Instant::FAR,
        resend_tail: false,
        path_retry: Instant::FAR,
        portless: Instant::FAR,
        next_probe: Instant::ZERO,
        next_tail_probe: Instant::FAR,
        next_keepalive: Instant::ZERO,
        keepalive_probes: 0,
        keepalive_unheard: false,
        keepalive_from: Instant::ZERO,
        started: Instant::ZERO,
        base_rtt: BaseRtt::new(Instant::ZERO, 0, 0),
        srtt_ns: 0,
        retry: RetryConfig { timeout: 0, linear: 0, exponential: 0 },
        trimming: Trimming::Off,
        target_delay_ns: 0,
        probe_rate_limit_ns: 0,
        keepalive_ns: 0,
        reorder_pkts_min: 3,
        reorder_factor: 384,
        reorder: ReorderDelay::OFF,
        lateness: Lateness::new(Instant::ZERO, (0, 0), 0, 0),
        blame_silence: true,
        tail_probe_ns: 0,
        path_mtu: 0,
        last_path: None,
        probes: ProbeTable::EMPTY,
    };

    /// The lines of memory that sending begins with.
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch_all([&self.last_heard, &self.next_scan]);
        memory.prefetch(&self.srtt_ns);
    }

    /// Those that acknowledgements read behind them.
    pub(crate) fn fetch_measures(&self, memory: &impl Prefetch) {
        self.fetch_patience(memory);
        self.lateness.fetch(memory);
    }

    /// Where the table of probes begins, whose head every packet reads, and what acknowledgements measure, in bytes.
    #[cfg(test)]
    pub(crate) const PARTS: [usize; 3] = [
        core::mem::offset_of!(Self, probes),
        core::mem::offset_of!(Self, base_rtt),
        core::mem::offset_of!(Self, lateness),
    ];

    /// Everything before the first PSN counts as acknowledged.
    //= REQ-001
    pub(crate) fn start(now: Instant, attr: &RtsAttr, path_mtu: u32, cfg: &EndpointConfig) -> Self {
        let before = attr.sq_psn.sub(1);
        Self {
            unack: before,
            max_sent: before,
            tack: before,
            hi_sacked: before,
            mpr_tx: u32::from(attr.mpr) * 128,
            next_msn: cfg.msn_start,
            next_rqmsn: cfg.rqmsn_start,
            wimm_tx: attr.max_wimm,
            begin_gate: if attr.max_wimm == 0 { u16::MAX } else { attr.max_wimm },
            dynamic_mpr: attr.dynamic_mpr,
            last_heard: now,
            last_answer: now,
            started: now,
            base_rtt: BaseRtt::new(now, attr.base_rtt_ns, cfg.measurement_life_ns),
            srtt_ns: attr.base_rtt_ns,
            retry: if attr.exponential_from_t0 { attr.retry.doubling_from_t0() } else { attr.retry },
            trimming: attr.trimming,
            target_delay_ns: attr.target_delay_ns,
            probe_rate_limit_ns: attr.probe_rate_limit_ns,
            keepalive_ns: attr.keepalive_ns,
            reorder_pkts_min: attr.reorder_pkts_min,
            reorder_factor: attr.reorder_factor,
            reorder: ReorderDelay::new(attr.reorder_delay_ns),
            lateness: Lateness::new(
                now,
                (attr.reorder_tolerance, attr.reorder_floor_ns),
                attr.retry.t0_ns().unwrap_or(u64::MAX),
                cfg.measurement_life_ns,
            ),
            blame_silence: attr.blame_silence,
            tail_probe_ns: attr.tail_probe_ns,
            path_mtu,
            ..Self::IDLE
        }
    }

    /// A write with immediate is covered by a Transport ACK.
    pub(crate) fn wimm_done(&mut self) {
        self.wimm_inflight = self.wimm_inflight.saturating_sub(1);
    }

    /// Smoothed round trip, in nanoseconds.
    pub(crate) const fn srtt_ns(&self) -> u64 {
        self.srtt_ns
    }

    /// Smallest round trip known, in nanoseconds.
    pub(crate) fn base_rtt_ns(&self) -> u64 {
        self.base_rtt.ns()
    }

    /// Whether a packet waits to leave again.
    pub(crate) const fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether it can be that of a QP with room for so many packets in flight, such a window, and packets of this size.
    pub(crate) fn fits(&self, packets: u32, window: u32, path_mtu: u32) -> bool {
        let ahead = |psn: Psn| psn.diff(self.unack) <= self.max_sent.diff(self.unack);
        // With Dynamic MPR the peer may offer more than any QP of ours.
        let widest = if self.dynamic_mpr { MOST_WINDOW.max(window) } else { window };
        let counts = self.outstanding().max(self.lost).max(self.held) <= packets && self.mpr_tx <= widest;
        let order = self.max_sent.diff(self.unack) >= 0 && ahead(self.tack) && ahead(self.hi_sacked);
        counts && order && (self.path_mtu == path_mtu || self.path_mtu == 0)
    }

    /// Packets sent and not cumulatively acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.max_sent.diff(self.unack).max(0) as u32
    }

    /// An answer of the peer to what was sent.
    fn answered(&mut self, now: Instant) {
        self.last_heard = now;
        self.was_heard = true;
        self.last_answer = now;
    }

    /// Everything up to `psn` is acknowledged by a Transport ACK, or by what stands for one: the wait for that is over.
    #[inline(always)]
    fn tack_reaches(&mut self, psn: Psn) {
        self.tack = psn;
        self.tack_wait = Instant::FAR;
        self.resend_tail = false;
    }

    /// The round trip as it is now, never below the unloaded one.
    fn rtt_now_ns(&self) -> u64 {
        self.base_rtt_ns().max(self.srtt_ns)
    }

    /// When the answer to the last of what was sent is overdue: a round trip, and the queues it may have met. Never later
    /// than silence draws a probe in any case.
    pub(crate) fn tail_answer_ns(&self) -> u64 {
        let rtt = self.rtt_now_ns();
        rtt.saturating_add(self.target_delay_ns.min(rtt << 1))
    }

    /// How long a probe may stay unanswered (`transport.md` 5); loaded software queues stretch it.
    pub(crate) fn probe_patience_ns(&self) -> u64 {
        let unloaded = self.base_rtt_ns().saturating_add(self.base_rtt_ns() << 1).saturating_add(self.target_delay_ns);
        unloaded.max(self.srtt_ns << 2).max(100_000)
    }
}

/// One QP with everything that its requester works on, for one call.
pub(crate) struct TxSide<'a, 's> {
    pub(crate) qp: &'a mut Qp,
    pub(crate) ring: &'a mut [Wqe],
    pub(crate) window: TxWindow<'a>,
    pub(crate) slots: &'a mut [EvSlot],
    pub(crate) order: &'a mut [u16],
    pub(crate) qpcc: &'a mut Qpcc,
    pub(crate) rng: &'a mut Rng,
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut Events<'s>,
    pub(crate) profiles: &'a mut EvProfiles<'s>,
    pub(crate) cfg: &'a EndpointConfig,
}

impl<'s> TxSide<'_, 's> {
    fn wire_ev(&self, index: EvIndex) -> Option<Ev> {
        self.slots.get(usize::from(index.0)).map(EvSlot::ev)
    }

    /// The same for a call out of line: of the original, whose address is not taken then, nothing goes to memory.
    #[inline(always)]
    pub(crate) fn copy(&mut self) -> TxSide<'_, 's> {
        TxSide {
            qp: self.qp,
            ring: self.ring,
            window: self.window.copy(),
            slots: self.slots,
            order: self.order,
            qpcc: self.qpcc,
            rng: self.rng,
            stats: self.stats,
            events: self.events,
            profiles: self.profiles,
            cfg: self.cfg,
        }
    }

    /// Tells the path state what was observed; counts and announces what changed.
    #[inline(always)]
    pub(crate) fn feedback(&mut self, now: Instant, index: EvIndex, what: Feedback) {
        let Qp { paths, path_cfg, .. } = &mut *self.qp;
        let change = paths.on_feedback(now, self.slots, self.order, index, what, path_cfg, self.rng);
        if let Some(change) = change {
            self.copy().changed(now, index, &change);
        }
    }

    /// Behind choices of paths, before the QP is given back: a choice ends skips, of which nobody hears.
    #[inline(always)]
    pub(crate) fn count_ended_skips(&mut self) {
        let ended = self.qp.paths.take_ended_skips();
        if ended > 0 {
            self.stats.states.change_evs(EvState::Skip, EvState::Good, ended);
        }
    }

    #[inline(never)]
    fn changed(&mut self, now: Instant, index: EvIndex, change: &Transition) {
        match (change.from, change.to) {
            (_, EvState::AssumedBad) => self.stats.ev_assumed_bad.inc(),
            (EvState::AssumedBad, _) => self.stats.ev_restored.inc(),
            (_, EvState::Skip) => self.stats.ev_skipped.inc(),
            _ => {}
        }
        self.stats.states.change_evs(change.from, change.to, 1);
        self.events.raise(self.stats, Event::Ev { qp: self.qp.qpn, transition: *change });
        let (of, entry) = (self.qp.ev_profile, self.slots.get(usize::from(index.0)).map(EvSlot::entry));
        if let (Some(entry), Some(profile)) = (entry, self.profiles.get_mut(of as usize)) {
            profile.announce(now, of, entry, change, self.events, self.stats);
            if self.cfg.share_bad_evs && change.to == EvState::AssumedBad {
                self.profiles.tell_bad(of, entry);
            }
        }
    }
}

/// A write packet that may leave now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPacket {
    pub(crate) psn: Psn,
    pub(crate) at: SegmentAt,
    /// Bytes of its payload.
    pub(crate) len: u32,
    pub(crate) choice: Choice,
    pub(crate) rtx: bool,
    pub(crate) ack_req: bool,
    /// New, and not the last of its request.
    pub(crate) more: bool,
}

impl TxSide<'_, '_> {
    fn nominal_of(&self, psn: Psn) -> u32 {
        match self.qp.sq.find(self.ring, psn) {
            Some(segment) => nominal_segment(self.cfg, segment.payload_len(self.qp.req.path_mtu), &segment),
            None => self.full_packet(),
        }
    }

    /// Nominal bytes of a packet as large as the path takes, without immediate.
    fn full_packet(&self) -> u32 {
        nominal_bytes(self.cfg, self.qp.req.path_mtu, 1, false) as u32
    }

    /// Whether a new packet fits the window of PSNs.
    //= SND-002, INV-001
    fn window_open(&self) -> bool {
        self.qp.req.outstanding() < self.psn_limit()
    }

    /// Most packets outstanding.
    fn psn_limit(&self) -> u32 {
        self.qp.req.mpr_tx.min(self.window.capacity())
    }

    /// No path can be used now: look again in a base RTT.
    fn wait_for_path(&mut self, now: Instant) {
        self.qp.req.path_retry = now.after(self.qp.req.base_rtt_ns().max(1));
    }

    /// Whether a packet of `bytes` that leaves, the `last` of its message or not, asks for an acknowledgement.
    //= AREQ-001
    #[inline(always)]
    fn asks(&self, bytes: u32, last: bool, rtx: bool) -> bool {
        let each = self.cfg.ask_each_message || self.cfg.complete_on_sack;
        let ends = last && (each || rtx || !self.has_new_data());
        ends || !self.window_open() || self.qpcc.wants_ack(&self.qp.share, bytes, self.cfg)
    }

    /// So many packets of so many bytes each leave, the last one through `choice`; it asks for an acknowledgement or not.
    //= SND-007, TIMER-003
    #[inline(always)]
    fn record_sent(&mut self, now: Instant, (packets, each): (u32, u32), choice: Choice, rtx: bool, ack_req: bool) {
        // Whatever is sent again is acknowledged at once.
        self.qpcc.on_send(&mut self.qp.share, packets, each, rtx, ack_req || rtx, self.cfg.sack_gen_threshold);
        if let Some(last) = self.qp.req.last_path.filter(|last| last.index != choice.index)
            && self.qp.paths.is_single_path()
        {
            let Self { events, stats, qp, .. } = self;
            stats.path_switches.inc();
            events.raise(stats, Event::PathSwitch { qp: qp.qpn, from: last.entry, to: choice.entry, at: now });
        }
        self.await_answer(now, choice);
    }

    /// When to act if nothing is heard of what left now, last through `choice`.
    #[inline(always)]
    fn await_answer(&mut self, now: Instant, choice: Choice) {
        self.qp.req.last_path = Some(choice);
        let deadline = now.after(self.qp.req.retry.interval_ns(self.qp.req.retry_cnt));
        self.qp.req.next_scan = self.qp.req.next_scan.min(deadline);
        if self.probes_tails() {
            self.qp.req.next_tail_probe = now.after(self.qp.req.tail_probe_ns);
        } else if self.qp.req.next_tail_probe == Instant::FAR {
            self.qp.req.next_tail_probe = now.after(self.qp.req.tail_answer_ns());
        }
    }

    /// Whether a probe follows what is under way, because nothing else will.
    #[inline]
    fn probes_tails(&self) -> bool {
        self.qp.req.tail_probe_ns > 0 && ((self.qp.req.lost == 0 && !self.qp.sq.has_new()) || self.withheld())
    }

    /// Whether the window closed behind packets that did not ask, by shrinking: they may have arrived without a report, and
    /// nothing that could ask can leave.
    #[inline]
    fn withheld(&self) -> bool {
        self.qp.share.unasked > 0 && !self.qpcc.can_send()
    }
}

crate::image::stored!(struct Requester {
    last_heard, last_answer, unack, max_sent, tack, hi_sacked, mpr_tx, lost, held, prev_rcvd_units, path_mtu, next_msn, next_rqmsn,
    wimm_tx, wimm_inflight, begin_gate, was_heard, resend_tail, dynamic_mpr, resource_nacks, retry_cnt, retry, trimming, blame_silence,
    next_scan, next_tail_probe, tack_wait, next_release, path_retry, portless, next_probe, tail_probe_ns, last_path, srtt_ns,
    target_delay_ns, base_rtt, lateness, reorder_pkts_min, reorder_factor, last_retry, keepalive_ns, next_keepalive,
    keepalive_probes, keepalive_unheard, keepalive_from, started, probe_rate_limit_ns, reorder, probes,
});

#[cfg(test)]
mod tests;

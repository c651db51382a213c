//! What SACKs, NACKs and Transport ACKs do to the requester. Source: `transport.md` 3.5 to 3.7 and 3.9.

use mrc_wire::{AethRepr, NackReason, NackRepr, Psn, SackRepr, Syndrome};

use super::{
    NOMINAL_OVERHEAD, TxSide, Wants,
    rtt::plausible,
    window::{TxRecord, outstanding_bits},
};
use crate::num::Counter;
use crate::{
    cc::AckSample,
    error::Discard,
    event::{ErrorCause, Event, LossCause},
    path::{Choice, EvIndex, Feedback},
    time::Instant,
};

/// Longest age of a packet whose 16-bit timestamp of 128 ns ticks is unambiguous.
const STAMP_REACH_NS: u64 = 8_000_000;

/// PSNs further behind than this are not of this connection's recent past.
const ANCIENT: i32 = -(1 << 22);

/// Why a packet is inferred lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Evidence {
    /// Enough packets with higher PSNs arrived; the first of them left so many nanoseconds ago.
    Overtaken { since_ns: u64 },
    /// One that left enough later arrived.
    Late,
    /// A probe that left later on the path with this EV was answered.
    Probe(EvIndex),
    /// One on another path, which met no queue.
    CalmProbe,
}

/// What a control packet asks of the QP beyond the requester's own state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    Continue,
    /// The QP fails.
    Fail(ErrorCause),
}

/// What a SACK told, and what it lets the QP do.
pub(crate) struct Report {
    /// The path of which it says that it works, that of the EV it echoes without mark; or why it said nothing new.
    pub(crate) path: Result<Option<Choice>, Discard>,
    /// The oldest request can complete.
    pub(crate) done: bool,
    pub(crate) wants: Wants,
}

/// A packet that the peer says has arrived, or was refused.
#[derive(Clone, Copy)]
struct Answered {
    psn: Psn,
    /// Its latest transmission, if it is certain that this one was answered: so long ago, through this path.
    sent: Option<(u64, TxRecord)>,
}

impl TxSide<'_, '_> {
    /// Applies a SACK; `rtx` is its BTH flag. Most come in order: what only losses, marks, probes and packets that overtook others
    /// need is looked at where there are any.
    //= SRX-001, CTL-001
    #[inline(always)]
    pub(crate) fn on_sack(&mut self, now: Instant, bytes: &[u8; SackRepr::LEN], rtx: bool) -> Report {
        let sack = SackRepr::parse(bytes);
        let cack = sack.cack;
        if cack.diff(self.qp.req.max_sent) > 0 || cack.diff(self.qp.req.unack) <= ANCIENT {
            return Report { path: Err(Discard::StalePsn), done: self.oldest_done(), wants: self.wants(now) };
        }
        self.qp.req.answered(now);
        let trigger = if sack.probe_answer { None } else { Some(offset(cack, sack.ack_offset())) };
        let (echoed, probe_ns) = match trigger {
            Some(psn) => (self.echoed(now, psn, &sack), None),
            None => self.copy().probe_answered(now, sack.probe_id(), sack.verdict),
        };
        let answered = trigger.map(|psn| self.answered(now, psn, rtx));
        let state = sack.cc_state();
        let rtt_ns = answered.and_then(|answered| self.rtt_sample(&answered, state.map_or(0, |state| state.timestamp)));
        if let (Some(rtt_ns), Some(psn)) = (rtt_ns, trigger) {
            self.learn_rtt(now, rtt_ns);
            if self.qp.paths.wants_rtt() {
                self.copy().path_rtt(now, psn, rtt_ns);
            }
        }
        //= DMPR-003, DMPR-004, SETH-009
        if self.qp.req.dynamic_mpr && sack.mpr != 0 {
            self.qp.req.mpr_tx = u32::from(sack.mpr) * 128;
        }
        if let Some(answered) = &answered {
            if rtx {
                self.copy().judge_repetition(now, answered.psn);
            }
            self.learn_lateness(now, answered);
        }
        let usual = self.score(&sack, trigger) && trigger.is_some() && !rtx && sack.verdict == mrc_wire::Verdict::None;
        // What has just arrived is noted.
        if rtx || trigger != Some(self.qp.req.hi_sacked) {
            self.copy().note_newest(now);
        }
        let newly_bytes = match state {
            Some(state) => self.newly_received(state.rcvd_bytes),
            //= SETH-010
            None => self.qpcc.bytes_beyond_packets(&self.qp.share, self.full_packet()),
        };
        let marked = sack.verdict == mrc_wire::Verdict::SkipOnce;
        // A congestion state of unknown layout asks for no penalty.
        let (penalty, restore) = state.map_or((0, true), |state| (state.rcv_cwnd_pen, state.restore_cwnd));
        self.qpcc.on_ack(&mut self.qp.share, now, &AckSample { newly_bytes, marked, rtt_ns, penalty, restore });
        if self.qp.req.hi_sacked != self.qp.req.unack {
            self.copy().infer_losses(now, &SackRepr::parse(bytes));
        }
        if let (Some(ev), Some(probe_ns)) = (echoed, probe_ns) {
            self.copy().infer_from_probe(now, &SackRepr::parse(bytes), ev, probe_ns);
        }
        let done = self.after_progress(now);
        self.probe_base_rtt();
        let wants = if usual { self.wants_after_report(now) } else { self.wants(now) };
        let unmarked = echoed.filter(|_| sack.verdict == mrc_wire::Verdict::None);
        let path = match echoed {
            None if trigger.is_none() => Err(Discard::StaleProbe),
            _ => Ok(unmarked.and_then(|ev| self.qp.paths.probe_choice(self.slots, ev))),
        };
        Report { path, done, wants }
    }

    //= CCP-001
    /// Step 1: the slot of the EV that a SACK of data echoes, `None` when it is unknown.
    #[inline(always)]
    fn echoed(&mut self, now: Instant, trigger: Psn, sack: &SackRepr) -> Option<EvIndex> {
        let hint = self.window.record(trigger).map(|record| record.ev());
        let ev = self.qp.paths.find(self.slots, hint, sack.entropy)?;
        self.feedback(now, ev, Feedback::Sack(sack.verdict));
        Some(ev)
    }

    /// Step 1 of the answer to a probe: the EV that it tested, `None` when it is not outstanding; and how long ago it left, in
    /// nanoseconds, if it went with the data.
    //= SRX-003
    #[inline(never)]
    fn probe_answered(&mut self, now: Instant, id: u16, verdict: mrc_wire::Verdict) -> (Option<EvIndex>, Option<u64>) {
        let Some((ev, rtt_ns)) = self.qp.req.probes.answered(id, now) else { return (None, None) };
        if plausible(rtt_ns) {
            self.learn_base_rtt(now, rtt_ns);
            self.qpcc.on_base_rtt(now, rtt_ns);
            self.feedback(now, ev, Feedback::ProbeRtt { rtt_ns });
        }
        self.feedback(now, ev, Feedback::ProbeAnswer(verdict));
        (Some(ev), self.qp.req.probes.saw_data_queues(id).then_some(rtt_ns))
    }

    /// Packet `psn`, of which an answer with this rtx flag speaks.
    #[inline(always)]
    fn answered(&self, now: Instant, psn: Psn, rtx: bool) -> Answered {
        let age = self.qp.req.max_sent.diff(psn);
        let known = age >= 0 && age.unsigned_abs() < self.window.capacity();
        let record = self.window.record(psn).filter(|record| known && record.answers_latest(rtx));
        Answered { psn, sent: record.map(|record| (record.sent_at.elapsed_ns(now), record)) }
    }

    /// Steps 3 and 7: marks what arrived and moves the window.
    /// Whether all is in order: nothing is missing below the highest packet that arrived.
    //= SRX-002, SRX-004
    #[inline(always)]
    fn score(&mut self, sack: &SackRepr, trigger: Option<Psn>) -> bool {
        let selective = self.is_selective();
        self.acknowledge(sack.cack);
        if sack.bitmap != 0 || trigger.is_some_and(|psn| psn.diff(self.qp.req.unack) > 0) {
            self.copy().mark_selected(offset(sack.cack, sack.sack_offset), sack.bitmap, trigger);
        }
        !selective && !self.is_selective()
    }

    /// Everything up to `psn` arrived.
    #[inline(always)]
    fn acknowledge(&mut self, psn: Psn) {
        let progress = psn.diff(self.qp.req.unack);
        if progress <= 0 {
            return;
        }
        // In order no bit is set below.
        if self.is_selective() {
            self.copy().advance(psn);
        } else {
            self.qpcc.on_sacked(&mut self.qp.share, progress.unsigned_abs());
            self.progress_to(psn);
        }
    }

    /// Whether anything in flight is known received or lost, and the scoreboard not empty.
    #[inline(always)]
    fn is_selective(&self) -> bool {
        self.qp.req.lost > 0 || self.qp.req.hi_sacked != self.qp.req.unack
    }

    /// The packets of `bitmap`, bit 0 = `base`, arrived, and the one that triggered the SACK.
    #[inline(never)]
    fn mark_selected(&mut self, base: Psn, bitmap: u64, trigger: Option<Psn>) {
        let seen = bitmap & outstanding_bits(base, self.qp.req.unack, self.qp.req.max_sent);
        if seen != 0 {
            self.mark(base, seen);
            self.saw(base.add(63u32.wrapping_sub(seen.leading_zeros())));
        }
        if let Some(psn) = trigger.filter(|psn| psn.diff(self.qp.req.unack) > 0 && psn.diff(self.qp.req.max_sent) <= 0)
        {
            self.mark(psn, 1);
            self.saw(psn);
        }
    }

    /// The set bits of `bitmap`, bit 0 = `base`, arrived; all are of packets outstanding.
    fn mark(&mut self, base: Psn, bitmap: u64) {
        let (unack, max) = (self.qp.req.unack, self.qp.req.max_sent);
        if self.qp.req.lost > 0 {
            let mut bits = bitmap;
            while bits != 0 {
                self.un_lose(base.add(bits.trailing_zeros()));
                bits &= bits.wrapping_sub(1);
            }
        }
        let newly = self.window.mark(base, bitmap, unack, max);
        self.qpcc.on_sacked(&mut self.qp.share, newly);
    }

    /// Everything up to `cack` arrived, which some of it was known to have, or was taken for lost.
    #[inline(never)]
    fn advance(&mut self, cack: Psn) {
        let mut from = self.qp.req.unack;
        while self.qp.req.lost > 0
            && let Some(psn) = self.window.first_lost(from, cack)
        {
            self.un_lose(psn);
            // Each word of the scoreboard is looked at once, however many packets were lost.
            from = psn;
        }
        let newly = self.window.advance(self.qp.req.unack, cack);
        self.qpcc.on_sacked(&mut self.qp.share, newly);
        self.progress_to(cack);
    }

    fn saw(&mut self, psn: Psn) {
        if psn.diff(self.qp.req.hi_sacked) > 0 {
            self.qp.req.hi_sacked = psn;
        }
    }

    //= SRX-006, RETRY-002
    fn progress_to(&mut self, cack: Psn) {
        self.qp.req.unack = cack;
        self.saw(cack);
        self.qp.req.retry_cnt = 0;
        self.qp.req.resource_nacks = 0;
        self.look_at_held();
    }

    /// Packet `psn` arrived; if it is LOST it waits for no retransmission any more. The scoreboard still has it as LOST: it
    /// is not in flight, so the SACK takes nothing more from what is.
    //= SRX-007, NSCC-021, INV-005
    fn un_lose(&mut self, psn: Psn) {
        if self.window.is_lost(psn) {
            self.qp.req.lost = self.qp.req.lost.saturating_sub(1);
            self.qp.req.held = self.qp.req.held.saturating_sub(self.window.is_held(psn).into());
            let bytes = self.nominal_of(psn);
            self.qpcc.on_unloss(&mut self.qp.share, bytes);
        }
    }

    /// Step 4: bytes the responder newly counted, at most what this QP sent and nobody reported yet: no report empties a
    /// window that other QPs share. A reordered SACK's older count is ignored.
    //= SRX-005, SRX-009
    fn newly_received(&mut self, units: u32) -> u32 {
        let before = self.qp.req.prev_rcvd_units;
        let delta = units.wrapping_sub(before) & 0xFF_FFFF;
        if delta == 0 || delta >= 1 << 23 {
            return 0;
        }
        let told = delta.saturating_mul(256);
        let newly = told.min(self.qpcc.unreported_bytes(&self.qp.share));
        // A peer that weighs packets somewhat heavier stays in step. After a count out of thin air the true one, which is
        // lower, must still be understood.
        let in_step = told / 2 <= newly;
        let newly_units = (newly >> 8).wrapping_add(u32::from(newly & 0xFF != 0));
        self.qp.req.prev_rcvd_units = if in_step { units } else { before.wrapping_add(newly_units) & 0xFF_FFFF };
        newly
    }

    /// A round trip, when it is certain which transmission the feedback answers (`congestion.md` 3). The send time is our
    /// own; the timestamp that came back only tells how long the responder let the packet wait, where it says so.
    //= RTT-001, RTT-002, TS-002
    #[inline(always)]
    fn rtt_sample(&self, answered: &Answered, timestamp: u16) -> Option<u64> {
        let (elapsed_ns, record) = answered.sent?;
        let waited_ns = match timestamp {
            // Not ours, none, or so long ago that 16 bits may have wrapped: what it says means nothing.
            0 => 0,
            _ if !self.cfg.timestamps || elapsed_ns > STAMP_REACH_NS => 0,
            reflected => u64::from(reflected.wrapping_sub(record.sent_at.stamp())) << 7,
        };
        // A responder that "waited" longer than the whole round trip did not reflect this packet's timestamp.
        let rtt_ns = if waited_ns < elapsed_ns { elapsed_ns.wrapping_sub(waited_ns) } else { elapsed_ns };
        plausible(rtt_ns).then_some(rtt_ns)
    }

    /// Tells a selector that listens to delay how long `psn` took, and sends the probes it asks for. A NACK gives no such
    /// sample: the rest of a trimmed packet overtakes the queue that it was cut for.
    #[inline(never)]
    fn path_rtt(&mut self, now: Instant, psn: Psn, rtt_ns: u64) {
        let Some(ev) = self.window.record(psn).map(|record| record.ev()) else { return };
        let behind = u16::try_from(self.qp.req.max_sent.diff(psn)).unwrap_or(0);
        self.feedback(now, ev, Feedback::Rtt { rtt_ns, psn, behind });
        if self.qp.paths.wants_probe() {
            let path = self.slots.get(usize::from(ev.0)).map_or(u16::MAX, |slot| slot.entry());
            let rtt_ns = u32::try_from(rtt_ns).unwrap_or(u32::MAX);
            let Self { events, stats, qp, .. } = self;
            events.raise(stats, Event::PathProbe { qp: qp.qpn, path, rtt_ns, at: now });
            let ports = self.qp.paths.usable_ports();
            self.probe_paths(now, ports);
        }
    }

    fn learn_rtt(&mut self, now: Instant, rtt_ns: u64) {
        self.learn_base_rtt(now, rtt_ns);
        // RFC 6298 section 2 weight: an eighth of each sample.
        self.qp.req.srtt_ns = self.qp.req.srtt_ns.wrapping_sub(self.qp.req.srtt_ns / 8).wrapping_add(rtt_ns / 8);
    }

    fn learn_base_rtt(&mut self, now: Instant, rtt_ns: u64) {
        if self.qp.req.base_rtt.learn(now, rtt_ns) {
            self.look_at_held();
        }
    }

    /// Packets that must have overtaken a packet before it is inferred lost (`transport.md` 3.6).
    fn reorder_pkts(&self) -> u32 {
        let packet = u64::from(self.qp.req.path_mtu.saturating_add(NOMINAL_OVERHEAD)).max(1);
        let psns = u64::from(self.qp.req.mpr_tx).wrapping_mul(packet);
        let window = self.qpcc.cwnd_bytes().min(psns);
        // Up to the largest window, not the present one: what left under a larger one is still under way.
        let most = self.qpcc.max_wnd_bytes().min(psns);
        let scaled = window.saturating_mul(self.qp.req.reorder_factor.into()) >> 8;
        // Seven eighths of the window of PSNs: no packet is ever overtaken by a whole one, and its end may be missing, too.
        let psns = self.qp.req.mpr_tx.min(self.window.capacity());
        let reachable = psns.wrapping_sub(psns / 8);
        let packets = scaled.min(most).saturating_add(packet.wrapping_sub(1)).checked_div(packet).unwrap_or(0);
        let limit = packets.min(u64::from(reachable)) as u32;
        limit.max(u32::from(self.qp.req.reorder_pkts_min))
    }

    /// Step 8, where a packet arrived beyond what is acknowledged: zeros of the bitmap that enough later packets have overtaken, or
    /// one that left enough later.
    //= LOSS-001, LOSS-002, LOSS-004, LOSS-005
    #[inline(never)]
    fn infer_losses(&mut self, now: Instant, sack: &SackRepr) {
        let base = offset(sack.cack, sack.sack_offset);
        // In order nothing is missing below the highest packet seen, whatever the limit.
        let missing = outstanding_bits(base, self.qp.req.unack, self.qp.req.hi_sacked) & !sack.bitmap;
        if missing == 0 {
            return;
        }
        let overtaken = self.qp.req.hi_sacked.sub(self.reorder_pkts());
        let range = outstanding_bits(base, self.qp.req.unack, overtaken);
        if range & !sack.bitmap != 0 {
            // Of a packet that was itself sent again it is not known when it left first.
            let first = self.window.record(overtaken).filter(|record| record.answers_latest(false));
            let since_ns = first.map_or(u64::MAX, |record| record.sent_at.elapsed_ns(now));
            self.infer_in(now, base, range & !sack.bitmap, self.qp.req.base_rtt_ns(), Evidence::Overtaken { since_ns });
        }
        let Some(delay_ns) = self.qp.req.reorder.delay_ns(self.qp.req.srtt_ns) else { return };
        let Some(newest) = self.window.record(self.qp.req.hi_sacked) else { return };
        let age_ns = newest.sent_at.elapsed_ns(now);
        // Of a packet sent again, an answer sooner than any round trip is that to an earlier copy.
        if newest.answers_latest(false) || age_ns >= self.qp.req.base_rtt_ns() {
            let least_ns = age_ns.saturating_add(delay_ns).max(self.qp.req.base_rtt_ns());
            self.infer_in(now, base, missing, least_ns, Evidence::Late);
        }
    }

    /// How late the packet is that triggered a SACK, if it has just arrived; it may be the newest that has.
    #[inline(always)]
    fn learn_lateness(&mut self, now: Instant, answered: &Answered) {
        if !self.qp.req.lateness.measures() {
            return;
        }
        let Some((plane, sent)) = self.departure(now, answered) else { return };
        let psn = answered.psn;
        if psn.diff(self.qp.req.unack) > 0 && !(self.is_selective() && self.window.is_sacked(psn)) {
            self.qp.req.lateness.late(now, plane, sent);
        }
        self.qp.req.lateness.arrived(plane, sent);
    }

    /// The highest packet known received may be the newest.
    #[inline(never)]
    fn note_newest(&mut self, now: Instant) {
        if self.qp.req.lateness.measures()
            && let Some((plane, sent)) = self.departure(now, &self.answered(now, self.qp.req.hi_sacked, false))
        {
            self.qp.req.lateness.arrived(plane, sent);
        }
    }

    /// The plane that a packet left through, and when, if it is certain which transmission was answered.
    #[inline(always)]
    fn departure(&self, now: Instant, answered: &Answered) -> Option<(usize, Instant)> {
        let (elapsed_ns, record) = answered.sent?;
        Some((self.plane_of(record.ev()), Instant::from_nanos(now.as_nanos().saturating_sub(elapsed_ns))))
    }

    #[inline(always)]
    fn plane_of(&self, ev: EvIndex) -> usize {
        self.slots.get(usize::from(ev.0)).map_or(usize::MAX, |slot| slot.port().plane().into())
    }

    /// What `psn`, whose repetition has arrived, says about the inference that had it repeated: when the packet was known
    /// to have arrived before, it was only late.
    #[inline(never)]
    fn judge_repetition(&mut self, now: Instant, psn: Psn) {
        let inferred = self.window.record(psn).is_some_and(TxRecord::fast_done);
        let age = self.qp.req.max_sent.diff(psn);
        if !inferred || age < 0 || age >= self.window.capacity() as i32 {
            return;
        }
        if psn.diff(self.qp.req.unack) <= 0 || self.window.is_sacked(psn) {
            self.qp.req.reorder.repeated_in_vain(now, self.qp.req.srtt_ns);
        } else {
            self.qp.req.reorder.repeated_in_need();
        }
    }

    /// A probe went with the data and its answer lacks packets that left before it. Those on its own path it has not
    /// overtaken, so they are lost, however long the queues are; so are all others that left three round trips ago, if the
    /// probe met no queue to speak of. This is how a tail is found, which nothing overtakes (`transport.md` 5). A probe that
    /// follows tails by a set time speaks for all paths at once, like a packet that left as much later.
    //= PROBE-006, LOSS-003
    #[inline(never)]
    fn infer_from_probe(&mut self, now: Instant, sack: &SackRepr, ev: EvIndex, probe_ns: u64) {
        self.qp.req.next_tail_probe = self.qp.req.next_tail_probe.min(now.after(self.qp.req.tail_answer_ns()));
        let base = offset(sack.cack, sack.sack_offset);
        let missing = outstanding_bits(base, self.qp.req.unack, self.qp.req.max_sent) & !sack.bitmap;
        let same_plane = self.qp.req.lateness.same_plane_ns(self.plane_of(ev), self.qp.req.base_rtt_ns()).max(1);
        let any_plane = self.qp.req.lateness.any_plane_ns();
        self.infer_in(now, base, missing, probe_ns.saturating_add(same_plane), Evidence::Probe(ev));
        if self.qp.req.tail_probe_ns > 0 {
            let least = self.qp.req.tail_probe_ns.max(any_plane);
            self.infer_in(now, base, missing, probe_ns.saturating_add(least), Evidence::CalmProbe);
        }
        if probe_ns.saturating_sub(self.qp.req.base_rtt_ns()) < self.qp.req.target_delay_ns {
            let overdue_ns = self.qp.req.rtt_now_ns().saturating_mul(3);
            self.infer_in(now, base, missing, overdue_ns.max(probe_ns.saturating_add(any_plane)), Evidence::CalmProbe);
        }
    }

    /// The SENT packets among `suspects` (bit 0 = `base`) are lost if they left at least `age_ns` ago.
    //= LOSS-003, LOSS-004
    fn infer_in(&mut self, now: Instant, base: Psn, suspects: u64, age_ns: u64, evidence: Evidence) {
        // A probe that went with the data found no congestion either: the same as where switches would have trimmed.
        let probed = matches!(evidence, Evidence::Probe(_) | Evidence::CalmProbe);
        let blame = Feedback::Loss { trim_nack: probed || self.qp.req.trimming == crate::config::Trimming::On };
        let mut suspects = suspects & self.window.sent_bits(base, self.qp.req.unack, self.qp.req.max_sent);
        while suspects != 0 {
            let psn = base.add(suspects.trailing_zeros());
            suspects &= suspects.wrapping_sub(1);
            let Some(record) = self.window.record(psn) else { continue };
            let elapsed_ns = record.sent_at.elapsed_ns(now);
            if elapsed_ns < age_ns {
                // First transmissions leave in order: all that follow are younger, or have their turn with another SACK.
                if record.tx_count() == 1 {
                    return;
                }
                continue;
            }
            let plane = self.plane_of(record.ev());
            let overdue = self.qp.req.lateness.overdue(plane, record.left_at(now), self.qp.req.base_rtt_ns());
            let inconclusive = match evidence {
                // A repetition must be overtaken anew: packets that left before it have overtaken an earlier copy.
                Evidence::Overtaken { since_ns } => {
                    !overdue || record.fast_done() || (record.tx_count() > 1 && elapsed_ns < since_ns)
                }
                Evidence::Late => !overdue,
                Evidence::Probe(ev) => ev != record.ev(),
                Evidence::CalmProbe => false,
            };
            if inconclusive {
                continue;
            }
            if let Some(record) = self.window.record_mut(psn) {
                record.set_fast_done(true);
            }
            let ev = record.ev();
            self.stats.lost_inferred.inc();
            self.announce_loss(psn, ev, LossCause::Inferred);
            self.lose(now, psn);
            self.feedback(now, ev, blame);
        }
    }

    /// After the window may have moved: what is still being waited for; whether the oldest request can complete.
    #[inline(always)]
    fn after_progress(&mut self, now: Instant) -> bool {
        if self.qp.req.outstanding() == 0 {
            (self.qp.req.lost, self.qp.req.held) = (0, 0);
            self.qp.req.next_release = Instant::FAR;
            self.qp.req.next_scan = Instant::FAR;
            self.qp.req.next_tail_probe = Instant::FAR;
        } else if self.qp.req.tail_probe_ns > 0 && self.withheld() {
            self.qp.req.next_tail_probe = self.qp.req.next_tail_probe.min(now.after(self.qp.req.tail_probe_ns));
        }
        if now >= self.qp.req.next_release {
            self.copy().release_due(now);
        }
        self.qpcc.settle(&mut self.qp.share);
        let (unack, tack) = (self.qp.req.unack, self.qp.req.tack);
        let oldest = self.qp.sq.oldest(self.ring).filter(|(_, all_sent)| *all_sent).map(|(wqe, _)| wqe.last_psn());
        let waits = match oldest {
            Some(last) if tack.diff(last) < 0 => unack.diff(last) >= 0,
            // Acknowledged and about to complete: those behind it may wait for an acknowledgement of their own.
            Some(_) => tack != self.qp.req.max_sent && self.next_is_covered(),
            None => false,
        };
        if self.cfg.complete_on_sack && unack.diff(tack) > 0 {
            self.qp.req.tack = unack;
        } else if !waits {
            self.qp.req.tack_wait = Instant::FAR;
        } else if self.qp.req.tack_wait == Instant::FAR {
            self.qp.req.tack_wait = now;
        }
        oldest.is_some_and(|last| self.qp.req.tack.diff(last) >= 0)
    }

    /// Whether all packets of the first request without a Transport ACK arrived.
    #[inline(never)]
    fn next_is_covered(&self) -> bool {
        let next = self.qp.sq.find(self.ring, self.qp.req.tack.next());
        next.is_some_and(|segment| self.qp.req.unack.diff(segment.wqe.last_psn()) >= 0)
    }

    /// Applies a Transport ACK or NAK (`transport.md` 3.9).
    //= TACK-001, TACK-006, AETH-002, AETH-003, AETH-004, AETH-005, AETH-006, AETH-007, CTL-001
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, now: Instant, psn: Psn, aeth: &AethRepr) -> Result<Verdict, Discard> {
        let within = psn.diff(self.qp.req.max_sent) <= 0 && psn.diff(self.qp.req.unack) > ANCIENT;
        let fail = match aeth.syndrome {
            Syndrome::Ack(_) => None,
            Syndrome::RnrNak(_) | Syndrome::PsnSequenceError => return Err(Discard::Syndrome),
            Syndrome::RemoteAccess => Some(ErrorCause::RemoteAccess),
            Syndrome::RemoteOperational => Some(ErrorCause::RemoteOperation),
            Syndrome::InvalidRequest | Syndrome::Other(_) => Some(ErrorCause::RemoteInvalidRequest),
        };
        //= CTL-003
        let stale = fail.is_some() && psn.diff(self.qp.req.tack) <= 0 && !self.cfg.stale_nak_fatal;
        if !within || stale {
            return Err(Discard::StalePsn);
        }
        self.qp.req.answered(now);
        if let Some(cause) = fail {
            self.stats.rx_nak.inc();
            return Ok(Verdict::Fail(cause));
        }
        self.stats.rx_ack.inc();
        if psn.diff(self.qp.req.tack) > 0 {
            self.qp.req.tack = psn;
            self.qp.req.tack_wait = Instant::FAR;
            self.qp.req.resend_tail = false;
            self.qp.req.retry_cnt = 0;
        }
        self.acknowledge(psn);
        self.after_progress(now);
        Ok(Verdict::Continue)
    }

    /// Applies a NACK (`transport.md` 3.7); `rtx` is its BTH flag.
    //= CCP-001, NACK-001, NACK-002, NACK-003, NACK-004, NACK-005, NACK-006, NACK-007
    pub(crate) fn on_nack(&mut self, now: Instant, nack: &NackRepr, rtx: bool) -> Result<Verdict, Discard> {
        let psn = nack.psn;
        let outstanding = psn.diff(self.qp.req.unack) > 0 && psn.diff(self.qp.req.max_sent) <= 0;
        if !outstanding || self.window.is_sacked(psn) {
            return Err(Discard::StaleNack);
        }
        self.qp.req.answered(now);
        if nack.reason == NackReason::UnexpEvent {
            return Ok(Verdict::Fail(ErrorCause::RemoteOperation));
        }
        let what = match nack.reason {
            NackReason::Trimmed => Feedback::Trimmed,
            NackReason::TrimmedLastHop => Feedback::TrimmedLastHop,
            _ => Feedback::OtherNack,
        };
        let record = self.window.record(psn).ok_or(Discard::StaleNack)?;
        let blamed = self.qp.paths.find(self.slots, Some(record.ev()), nack.entropy);
        if let Some(ev) = blamed {
            self.feedback(now, ev, what);
        }
        if self.window.is_lost(psn) || self.of_earlier_copy(record, nack.entropy, rtx) {
            return Err(Discard::StaleNack);
        }
        let answered = self.answered(now, psn, rtx);
        let rtt_ns = self.rtt_sample(&answered, nack.timestamp);
        let trimmed = matches!(what, Feedback::Trimmed | Feedback::TrimmedLastHop);
        // Trimmed packets overtake others: how late one is proves nothing of those.
        if trimmed
            && self.qp.req.lateness.measures()
            && let Some((plane, sent)) = self.departure(now, &answered)
        {
            self.qp.req.lateness.late(now, plane, sent);
        }
        let bytes = self.nominal_of(psn);
        self.qpcc.on_nack(&mut self.qp.share, now, bytes, trimmed, rtt_ns);
        self.qpcc.settle(&mut self.qp.share);
        self.probe_base_rtt();
        self.window.set_lost(psn, true);
        self.qp.req.lost.inc();
        self.stats.lost_nack.inc();
        self.announce_loss(psn, record.ev(), LossCause::Nack(nack.reason));
        match nack.reason {
            NackReason::Trimmed | NackReason::TrimmedLastHop => {}
            NackReason::PsnOorWindow => self.hold(now, psn, 0),
            _ => {
                let before = self.qp.req.resource_nacks;
                self.qp.req.resource_nacks = before.saturating_add(1);
                self.hold(now, psn, before);
            }
        }
        Ok(self.count_retry(now, psn).map_or(Verdict::Continue, Verdict::Fail))
    }

    /// The first feedback of a destination: ask once more, in the control class, for a round trip without queues.
    //= NSCC-024
    fn probe_base_rtt(&mut self) {
        if let Some(choice) = self.qp.req.last_path
            && self.qpcc.take_base_rtt_wanted()
        {
            self.qp.req.probes.want_base_rtt(choice.index);
        }
    }

    /// Whether a NACK that echoes `entropy` and the rtx flag refuses an earlier transmission than the latest.
    fn of_earlier_copy(&self, latest: TxRecord, entropy: mrc_wire::Ev, rtx: bool) -> bool {
        self.wire_ev(latest.ev()) != Some(entropy) || rtx != (latest.tx_count() > 1)
    }
}

/// `psn` moved by a signed offset.
fn offset(psn: Psn, by: i16) -> Psn {
    if by >= 0 { psn.add(by.unsigned_abs().into()) } else { psn.sub(by.unsigned_abs().into()) }
}

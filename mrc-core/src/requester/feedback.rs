//! What SACKs and Transport ACKs do to the requester; what they let it infer is `loss`'s, NACKs are `nack`'s. Source:
//! `transport.md` 3.5, 3.6 and 3.9.

use mrc_wire::{AethRepr, Psn, SackRepr, Syndrome};

use super::{TxSide, Wants, record::TxRecord, rtt::plausible, window::outstanding_bits};
use crate::num::Counter;
use crate::{
    cc::AckSample,
    error::Discard,
    event::{ErrorCause, Event},
    path::{Choice, EvIndex, Feedback},
    time::Instant,
};

/// Longest age of a packet whose 16-bit timestamp of 128 ns ticks is unambiguous.
const STAMP_REACH_NS: u64 = 8_000_000;

/// PSNs further behind than this are not of this connection's recent past.
const ANCIENT: i32 = -(1 << 22);

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
pub(super) struct Answered {
    pub(super) psn: Psn,
    /// Its latest transmission, if it is certain that this one was answered: so long ago, through this path.
    pub(super) sent: Option<(u64, TxRecord)>,
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
            return Report { path: Err(Discard::StalePsn), done: false, wants: self.wants(now) };
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
        let marked = sack.verdict == mrc_wire::Verdict::SkipOnce;
        let (newly_bytes, penalty, restore) = match state {
            Some(state) => (self.newly_received(state.rcvd_bytes), state.rcv_cwnd_pen, state.restore_cwnd),
            // A congestion state of unknown layout asks for no penalty.
            //= SETH-010
            None => (self.qpcc.bytes_beyond_packets(&self.qp.share, self.full_packet()), 0, true),
        };
        let rtt_ns = trigger.and_then(|psn| rtt_ns.map(|rtt_ns| self.full_rtt_ns(rtt_ns, psn)));
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
    //= SRX-003
    #[inline(always)]
    fn echoed(&mut self, now: Instant, trigger: Psn, sack: &SackRepr) -> Option<EvIndex> {
        let hint = self.window.record(trigger).map(|record| record.ev());
        let ev = self.qp.paths.find(self.slots, hint, sack.entropy)?;
        self.feedback(now, ev, Feedback::Sack(sack.verdict));
        Some(ev)
    }

    /// Step 1 of the answer to a probe: the EV that it tested, `None` when it is not outstanding; and how long ago it left, in
    /// nanoseconds, if it went with the data.
    #[inline(never)]
    fn probe_answered(&mut self, now: Instant, id: u16, verdict: mrc_wire::Verdict) -> (Option<EvIndex>, Option<u64>) {
        let Some((ev, rtt_ns)) = self.qp.req.probes.answered(id, now) else { return (None, None) };
        if plausible(rtt_ns) {
            self.learn_base_rtt(now, rtt_ns);
            self.qpcc.on_probe_rtt(now, rtt_ns);
            self.feedback(now, ev, Feedback::ProbeRtt { rtt_ns });
        }
        self.feedback(now, ev, Feedback::ProbeAnswer(verdict));
        (Some(ev), self.qp.req.probes.saw_data_queues(id).then_some(rtt_ns))
    }

    /// Packet `psn`, of which an answer with this rtx flag speaks.
    #[inline(always)]
    pub(super) fn answered(&self, now: Instant, psn: Psn, rtx: bool) -> Answered {
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
    pub(super) fn is_selective(&self) -> bool {
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
    pub(super) fn rtt_sample(&self, answered: &Answered, timestamp: u16) -> Option<u64> {
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
        if self.cfg.complete_on_sack && self.qp.req.unack.diff(self.qp.req.tack) > 0 {
            self.qp.req.tack_reaches(self.qp.req.unack);
        }
        let tack = self.qp.req.tack;
        let oldest = self.qp.sq.oldest(self.ring).filter(|(_, all_sent)| *all_sent).map(|(wqe, _)| wqe.last_psn());
        let waits = match oldest {
            Some(last) if tack.diff(last) < 0 => self.has_arrived(last),
            // Acknowledged and about to complete: those behind it may wait for an acknowledgement of their own.
            Some(_) => tack != self.qp.req.max_sent && self.next_is_covered(),
            None => false,
        };
        if !waits {
            self.qp.req.tack_wait = Instant::FAR;
        } else if self.qp.req.tack_wait == Instant::FAR {
            self.qp.req.tack_wait = now;
        }
        oldest.is_some_and(|last| tack.diff(last) >= 0)
    }

    /// Whether all packets of the first request without a Transport ACK arrived.
    #[inline(never)]
    fn next_is_covered(&self) -> bool {
        let next = self.qp.sq.find(self.ring, self.qp.req.tack.next());
        next.is_some_and(|segment| self.has_arrived(segment.wqe.last_psn()))
    }

    /// Whether the peer reported every packet up to `last`.
    #[inline(always)]
    fn has_arrived(&self, last: Psn) -> bool {
        self.qp.req.unack.diff(last) >= 0 || (self.qp.req.hi_sacked.diff(last) >= 0 && self.in_bitmaps(last))
    }

    /// Whether bitmaps report what the cumulative PSN does not. A responder that takes the cumulative PSN before it records the
    /// packet that triggers its SACK leaves it behind; without a Transport ACK nothing else would end the wait.
    //= TACK-004
    #[inline(never)]
    fn in_bitmaps(&self, last: Psn) -> bool {
        self.window.first_unsacked(self.qp.req.unack, last).is_none()
    }

    /// Whether `psn` lies at or beyond the end of the first request without a Transport ACK. The acknowledgement of a message of
    /// nearly 2^23 packets that covers some of the next message is too far from the one before it to compare the two.
    #[inline(never)]
    fn ends_the_next(&self, psn: Psn) -> bool {
        self.qp.sq.ends_next(self.ring, self.qp.req.tack, self.qp.req.max_sent, psn)
    }

    /// Applies a Transport ACK or NAK (`transport.md` 3.9); why the QP fails, where it does.
    //= TACK-001, TACK-006, AETH-002, AETH-003, AETH-004, AETH-005, AETH-006, AETH-007, CTL-001
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, now: Instant, psn: Psn, aeth: &AethRepr) -> Result<Option<ErrorCause>, Discard> {
        let within = psn.diff(self.qp.req.max_sent) <= 0 && psn.diff(self.qp.req.unack) > ANCIENT;
        //= AETH-009
        let syndrome = match aeth.syndrome {
            Syndrome::Other(byte) => Syndrome::from_u8(byte & 0x7F),
            known => known,
        };
        let fail = match syndrome {
            Syndrome::Ack(_) => None,
            Syndrome::RnrNak(_) | Syndrome::PsnSequenceError => return Err(Discard::Syndrome),
            Syndrome::Other(byte) if byte & 0x60 != 0x60 => return Err(Discard::Syndrome),
            Syndrome::RemoteAccess => Some(ErrorCause::RemoteAccess),
            Syndrome::RemoteOperational => Some(ErrorCause::RemoteOperation),
            Syndrome::InvalidRequest | Syndrome::Other(_) => Some(ErrorCause::RemoteInvalidRequest),
        };
        //= CTL-003
        let news = psn.diff(self.qp.req.tack) > 0 || self.ends_the_next(psn);
        let stale = fail.is_some() && !news && !self.cfg.stale_nak_fatal;
        if !within || stale {
            return Err(Discard::StalePsn);
        }
        self.qp.req.answered(now);
        if let Some(cause) = fail {
            self.stats.rx_nak.inc();
            return Ok(Some(cause));
        }
        self.stats.rx_ack.inc();
        if news {
            self.qp.req.tack_reaches(psn);
            self.qp.req.retry_cnt = 0;
        }
        self.acknowledge(psn);
        self.after_progress(now);
        Ok(None)
    }

    /// The first feedback of a destination: ask once more, in the control class, for a round trip without queues.
    //= NSCC-024
    pub(super) fn probe_base_rtt(&mut self) {
        if let Some(choice) = self.qp.req.last_path
            && self.qpcc.take_base_rtt_wanted()
        {
            self.qp.req.probes.want_base_rtt(choice.index);
        }
    }
}

/// `psn` moved by a signed offset.
pub(super) fn offset(psn: Psn, by: i16) -> Psn {
    if by >= 0 { psn.add(by.unsigned_abs().into()) } else { psn.sub(by.unsigned_abs().into()) }
}

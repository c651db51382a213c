//! What is inferred lost: packets that enough later ones have overtaken, and what an answered probe lacks. Source:
//! `transport.md` 3.6 and 5.

use mrc_wire::{Psn, SackRepr};

use super::{
    TxSide,
    feedback::{Answered, offset},
    record::TxRecord,
    window::outstanding_bits,
};
use crate::{
    cc::NOMINAL_OVERHEAD,
    event::{Event, EventMask, LossCause},
    num::Counter,
    path::{EvIndex, Feedback},
    time::Instant,
};

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

impl TxSide<'_, '_> {
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
    pub(super) fn infer_losses(&mut self, now: Instant, sack: &SackRepr) {
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

    /// What `psn`, whose repetition has arrived, says about the inference that had it repeated: when the packet was known
    /// to have arrived before, it was only late.
    #[inline(never)]
    pub(super) fn judge_repetition(&mut self, now: Instant, psn: Psn) {
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
    pub(super) fn infer_from_probe(&mut self, now: Instant, sack: &SackRepr, ev: EvIndex, probe_ns: u64) {
        self.qp.req.next_tail_probe = self.qp.req.next_tail_probe.min(now.after(self.qp.req.tail_answer_ns()));
        let base = offset(sack.cack, sack.sack_offset);
        let missing = !sack.bitmap;
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

    /// The SENT packets among `suspects` (bit 0 = `base`) are lost if they left at least `age_ns` ago. A packet that was sent
    /// [`TxRecord::MANY`] times is left to its timer, which the retry budget counts: what never gets through, such as packets above
    /// the MTU of the fabric, ends the queue pair although probes are answered.
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
            if inconclusive || record.tx_count() == TxRecord::MANY {
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

    /// How late the packet is that triggered a SACK, if it has just arrived; it may be the newest that has.
    #[inline(always)]
    pub(super) fn learn_lateness(&mut self, now: Instant, answered: &Answered) {
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
    pub(super) fn note_newest(&mut self, now: Instant) {
        if self.qp.req.lateness.measures()
            && let Some((plane, sent)) = self.departure(now, &self.answered(now, self.qp.req.hi_sacked, false))
        {
            self.qp.req.lateness.arrived(plane, sent);
        }
    }

    /// The plane that a packet left through, and when, if it is certain which transmission was answered.
    #[inline(always)]
    pub(super) fn departure(&self, now: Instant, answered: &Answered) -> Option<(usize, Instant)> {
        let (elapsed_ns, record) = answered.sent?;
        Some((self.plane_of(record.ev()), Instant::from_nanos(now.as_nanos().saturating_sub(elapsed_ns))))
    }

    #[inline(always)]
    fn plane_of(&self, ev: EvIndex) -> usize {
        self.slots.get(usize::from(ev.0)).map_or(usize::MAX, |slot| slot.port().plane().into())
    }

    pub(super) fn announce_loss(&mut self, psn: Psn, ev: EvIndex, cause: LossCause) {
        let Self { events, stats, qp, .. } = self;
        if events.wants(EventMask::LOSS) {
            events.raise(stats, Event::Loss { qp: qp.qpn, psn, ev, cause });
        }
    }

    /// Marks `psn` LOST.
    pub(super) fn lose(&mut self, now: Instant, psn: Psn) {
        self.window.set_lost(psn, true);
        self.qp.req.lost.inc();
        let bytes = self.nominal_of(psn);
        // Silence says that the peer is gone or its paths are, not that they are congested: others share the window.
        //= SCHED-002
        let heard = !self.qp.req.is_silent(self.cfg);
        self.qpcc.on_loss(&mut self.qp.share, now, bytes, heard);
        self.qpcc.settle(&mut self.qp.share);
    }
}

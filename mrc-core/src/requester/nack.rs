//! What a NACK does to the requester. Source: `transport.md` 3.7.

use mrc_wire::{NackReason, NackRepr};

use super::{TxSide, record::TxRecord};
use crate::{
    error::Discard,
    event::{ErrorCause, LossCause},
    num::Counter,
    path::Feedback,
    time::Instant,
};

impl TxSide<'_, '_> {
    /// Applies a NACK (`transport.md` 3.7); `rtx` is its BTH flag. Why the QP fails, where it does.
    //= CCP-001, NACK-001, NACK-002, NACK-003, NACK-004, NACK-005, NACK-006, NACK-007
    pub(crate) fn on_nack(&mut self, now: Instant, nack: &NackRepr, rtx: bool) -> Result<Option<ErrorCause>, Discard> {
        let psn = nack.psn;
        let outstanding = psn.diff(self.qp.req.unack) > 0 && psn.diff(self.qp.req.max_sent) <= 0;
        if !outstanding || self.window.is_sacked(psn) {
            return Err(Discard::StaleNack);
        }
        self.qp.req.answered(now);
        if nack.reason == NackReason::UnexpEvent {
            return Ok(Some(ErrorCause::RemoteOperation));
        }
        let what = match nack.reason {
            NackReason::Trimmed => Feedback::Trimmed,
            NackReason::TrimmedLastHop => Feedback::TrimmedLastHop,
            _ => Feedback::OtherNack,
        };
        // The packet is already being resent: what this NACK refused was known, or inferred.
        if self.window.is_lost(psn) {
            return Err(Discard::StaleNack);
        }
        let record = self.window.record(psn).ok_or(Discard::StaleNack)?;
        let blamed = self.qp.paths.find(self.slots, Some(record.ev()), nack.entropy);
        if let Some(ev) = blamed {
            self.feedback(now, ev, what);
        }
        if self.of_earlier_copy(record, nack.entropy, rtx) {
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
        // Behind the switch that trimmed it a packet has no payload.
        let rtt_ns = rtt_ns.map(|rtt_ns| match trimmed {
            true => self.qpcc.full_rtt_ns(rtt_ns, || 0),
            false => self.full_rtt_ns(rtt_ns, psn),
        });
        self.qpcc.on_nack(&mut self.qp.share, now, bytes, trimmed, rtt_ns);
        self.qpcc.settle(&mut self.qp.share);
        self.probe_base_rtt();
        self.window.set_lost(psn, true);
        self.qp.req.lost.inc();
        self.stats.lost_nack.inc();
        self.announce_loss(psn, record.ev(), LossCause::Nack(nack.reason));
        match nack.reason {
            NackReason::Trimmed | NackReason::TrimmedLastHop => {
                if let Some(record) = self.window.record_mut(psn) {
                    record.nacked();
                }
            }
            NackReason::PsnOorWindow => self.hold(now, psn, 0),
            _ => {
                let before = self.qp.req.resource_nacks;
                self.qp.req.resource_nacks = before.saturating_add(1);
                self.hold(now, psn, before);
            }
        }
        Ok(self.count_retry(now, psn))
    }

    /// Whether a NACK that echoes `entropy` and the rtx flag refuses another transmission than the latest. Each has an entropy of
    /// its own, so that this alone decides. Where there is one path the flag must fit, too. A flag that is set is never that
    /// of a packet which left once.
    fn of_earlier_copy(&self, latest: TxRecord, entropy: mrc_wire::Ev, rtx: bool) -> bool {
        let again = latest.tx_count() > 1;
        let fits = rtx == again || (again && self.qp.paths.has_choice());
        self.wire_ev(latest.ev()) != Some(entropy) || !fits
    }
}

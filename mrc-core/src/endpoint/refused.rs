//! Received packets that draw an answer and place nothing: probes, trimmed packets, and writes that are refused; what a write
//! needs that does not come in order. Source: `wire.md` 13, `transport.md` 4.

use mrc_wire::{NackReason, PacketHead, ProbeRepr, Psn, Syndrome, Trim, TsethRepr};

use super::{Endpoint, Received, part};
use crate::{
    error::Discard,
    event::ErrorCause,
    num::Counter,
    responder::{Acceptance, Answer, AnswerKind, Arrival, Arrived},
    time::Instant,
};

impl Endpoint<'_> {
    /// A write or a probe is a sign of life. What answers our own packets is one only after it was found to (`feedback`),
    /// and a trimmed packet, which no ICRC protects, is none.
    fn heard(&mut self, now: Instant, qp: u32) {
        if self.qps.get_mut(qp as usize).is_some_and(|slot| slot.heard(now)) {
            self.probe_return_path(now, qp);
        }
    }

    /// A write that fails its QP.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_for_good(
        &mut self,
        now: Instant,
        qp: u32,
        psn: Psn,
        (syndrome, cause): (Syndrome, ErrorCause),
    ) -> Discard {
        self.fail_qp(now, qp, cause, None);
        self.answer_nak(qp, psn, syndrome);
        Discard::Nak
    }

    /// A control packet is owed.
    #[inline(never)]
    pub(super) fn join_control(&mut self, qp: u32) {
        self.control.push(self.qps, qp);
    }

    /// A write for `qp` that is not the next one, or has others waiting behind it; whether a control packet is owed.
    #[inline(never)]
    pub(super) fn on_gap<const FREE: bool>(&mut self, now: Instant, qp: u32, write: &Arrived) -> Result<bool, Discard> {
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let bits = part(self.rx_words, qp, self.limits.words()).unwrap_or_default();
        match slot.rsp.on_gap::<FREE>(write, bits, &self.cfg) {
            Acceptance::New { owes } => Ok(owes),
            Acceptance::Duplicate => Err(self.refuse_again(now, qp)),
            Acceptance::OutOfWindow => {
                let nack = slot.rsp.out_of_window(write, &self.cfg);
                Err(self.refuse_beyond(qp, nack))
            }
        }
    }

    /// A write that arrived before, which has been answered.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_again(&mut self, now: Instant, qp: u32) -> Discard {
        self.reroute_answers(now, qp);
        self.wake_control(qp);
        Discard::Duplicate
    }

    /// A write beyond the window.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_beyond(&mut self, qp: u32, nack: Option<Answer>) -> Discard {
        if let (Some(slot), Some(nack)) = (self.qps.get_mut(qp as usize), nack) {
            slot.rsp.refuse(&mut self.refusals, nack);
        }
        self.wake_control(qp);
        Discard::OutOfWindow
    }

    /// Refuses a new write before anything of it is recorded, for want of resources or because the device failed. `None` for
    /// one that is not new.
    //= VAL-019, RSP-007
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_unrecorded(&mut self, now: Instant, qp: u32, nack: Answer) -> Option<Discard> {
        let bits = part(self.rx_words, qp, self.limits.words())?;
        let rsp = &self.qps.get(qp as usize)?.rsp;
        let refused = self.refusal.is_some() || !rsp.placing.has_room(nack.psn, bits);
        if !refused || rsp.window.classify(nack.psn, bits) != Arrival::New {
            return None;
        }
        if nack.kind == AnswerKind::Nack(NackReason::UnexpEvent) {
            self.fail_qp(now, qp, ErrorCause::RequestFailed, None);
        }
        if let Some(slot) = self.qps.get_mut(qp as usize) {
            slot.rsp.refuse(&mut self.refusals, nack);
        }
        self.wake_control(qp);
        Some(Discard::Refused)
    }

    //= SACK-005, SACK-007, BTH-013, PROBE-002
    pub(super) fn on_probe(
        &mut self,
        now: Instant,
        qp: u32,
        packet: &PacketHead<'_>,
        probe: &ProbeRepr,
    ) -> Result<Received, Discard> {
        self.stats.rx_marked.inc_by(u64::from(packet.ce()));
        self.heard(now, qp);
        self.stats.rx_probe.inc();
        // Two probes without new data between them: the peer may be asking because our answers die on their way.
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        if !core::mem::take(&mut slot.written) {
            self.reroute_answers(now, qp);
        }
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let ev = packet.entropy(&self.cfg.wire);
        let verdict = slot.rsp.verdict(ev, packet.ce(), self.cfg.always_skip_after);
        slot.rsp.reported();
        slot.rsp.answers.push(Answer {
            kind: AnswerKind::Sack { verdict, probe_id: Some(probe.probe_id) },
            psn: slot.rsp.window.cack(),
            ev,
            timestamp: probe.tseth.reflected(),
            rtx: false,
            added: slot.rsp.svc_time.on(&probe.tseth),
            arrived: now.stamp(),
        });
        self.wake_control(qp);
        Ok(Received::Nothing)
    }

    //= TRIM-005, TRIM-006, TRIM-007, TRIM-008, TRIM-009, TRIM-010, TS-005
    /// A trimmed packet may only draw one NACK, or a SACK when its PSN arrived before (`wire.md` 13).
    pub(super) fn on_trimmed(
        &mut self,
        now: Instant,
        qp: u32,
        packet: &PacketHead<'_>,
        kind: Trim,
        (timestamp, tsr): (u16, bool),
    ) -> Result<Received, Discard> {
        self.stats.rx_trimmed.inc();
        let bits = part(self.rx_words, qp, self.limits.words()).ok_or(Discard::Qpn)?;
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let (psn, rtx, ev) = (packet.psn(), packet.rtx(), packet.entropy(&self.cfg.wire));
        let added = slot.rsp.svc_time.on(&TsethRepr { tsr, ..TsethRepr::ns128(timestamp) });
        let answer = |kind| Answer { psn, ev, timestamp, rtx, added, arrived: now.stamp(), kind };
        match slot.rsp.window.classify(psn, bits) {
            Arrival::New if slot.rsp.trim_nack => {
                let reason = match kind {
                    Trim::Trimmed => NackReason::Trimmed,
                    Trim::LastHop => NackReason::TrimmedLastHop,
                };
                slot.rsp.refuse(&mut self.refusals, answer(AnswerKind::Nack(reason)));
            }
            Arrival::Below | Arrival::Seen if slot.rsp.trim_nack => {
                slot.rsp.answers.push(answer(AnswerKind::PLAIN_SACK));
            }
            _ => return Err(Discard::Trimmed),
        }
        self.wake_control(qp);
        Ok(Received::Nothing)
    }
}

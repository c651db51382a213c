//! Answers of the peer to what our requester sent. What they mean is `requester/feedback.rs`'s; here is what they let the QP
//! do next. Source: `transport.md` 3.5 to 3.9.

use mrc_wire::{Body, NackReason, Psn, SackRepr};

use super::{Endpoint, Received};
use crate::num::Counter;
use crate::{
    error::Discard,
    qp::{Qp, QpState},
    requester::{Report, Verdict, Wants},
    time::Instant,
};

impl Endpoint<'_> {
    /// SACK for our requester.
    #[inline(never)]
    pub(super) fn on_sack(
        &mut self,
        now: Instant,
        qp: u32,
        sack: &[u8; SackRepr::LEN],
        rtx: bool,
    ) -> Result<Received, Discard> {
        if self.qps.get(qp as usize).is_none_or(|slot| slot.state != QpState::Rts) {
            return Err(Discard::State);
        }
        self.stats.rx_sack.inc();
        // One borrow of the QP's storage for the SACK and for what it lets the QP do.
        let report = self.with_tx(
            qp,
            #[inline(always)]
            |mut tx| tx.on_sack(now, sack, rtx),
        );
        let Some(Report { path, done, wants }) = report else { return Err(Discard::Qpn) };
        if let Ok(Some(path)) = path {
            self.learn_way_back(qp, path);
        }
        self.after_sack(now, qp, done, wants);
        path.map(|_| Received::Nothing)
    }

    /// What a SACK lets the QP do. Even one that counts as stale (a late probe answer) may have moved the window.
    fn after_sack(&mut self, now: Instant, qp: u32, done: bool, wants: Wants) {
        if done {
            self.complete(qp);
            self.wake(now, qp);
        } else {
            self.wake_control(qp);
            self.wake_for(qp, wants);
        }
    }

    /// NACK, Transport ACK or NAK for our requester.
    pub(super) fn on_control(
        &mut self,
        now: Instant,
        qp: u32,
        body: &Body,
        psn: Psn,
        rtx: bool,
    ) -> Result<Received, Discard> {
        let verdict = match body {
            Body::Nack(nack) => {
                self.stats.rx_nack.inc();
                let trimmed = matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop);
                self.stats.rx_nack_trimmed.inc_by(u64::from(trimmed));
                self.with_tx(qp, |mut tx| tx.on_nack(now, nack, rtx)).unwrap_or(Err(Discard::Qpn))
            }
            Body::Ack(aeth) => self.with_tx(qp, |mut tx| tx.on_ack(now, psn, aeth)).unwrap_or(Err(Discard::Qpn)),
            _ => Err(Discard::Opcode),
        };
        if let Ok(Verdict::Fail(cause)) = verdict {
            // A NAK below what completed names no request; then the oldest one reports the cause.
            let open = |slot: &Qp| psn.diff(slot.req.tack) > 0;
            let names_request = matches!(body, Body::Ack(_)) && self.qps.get(qp as usize).is_some_and(open);
            self.fail_qp(now, qp, cause, names_request.then_some(psn));
        } else {
            self.complete(qp);
        }
        self.wake(now, qp);
        verdict.map(|_| Received::Nothing)
    }
}

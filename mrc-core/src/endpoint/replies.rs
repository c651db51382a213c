//! Answers of the peer to what our requester sent. What they mean is `requester/feedback.rs`'s; here is what they let the QP
//! do next. Source: `transport.md` 3.5 to 3.9.

use mrc_wire::{AethRepr, NackReason, NackRepr, Psn, SackRepr};

use super::{Endpoint, Received};
use crate::num::Counter;
use crate::{
    error::Discard,
    requester::{Report, Wants},
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
        // One borrow of the QP's storage for the SACK and for what it lets the QP do.
        let report = self.with_tx(
            qp,
            #[inline(always)]
            |mut tx| tx.on_sack(now, sack, rtx),
        );
        let Report { path, done, wants } = report.ok_or(Discard::State)?;
        self.stats.rx_sack.inc();
        if let Ok(Some(path)) = path {
            self.learn_return_path(qp, path);
        }
        self.after_report(now, qp, done, wants);
        path.map(|_| Received::Nothing)
    }

    /// Transport ACK or NAK for our requester.
    #[inline(never)]
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        qp: u32,
        psn: Psn,
        aeth: &[u8; AethRepr::LEN],
    ) -> Result<Received, Discard> {
        let aeth = AethRepr::parse(aeth);
        let taken = self.with_tx(qp, |mut tx| {
            let failure = tx.on_ack(now, psn, &aeth)?;
            Ok((failure, tx.wants_after_report(now)))
        });
        let (failure, wants) = taken.unwrap_or(Err(Discard::State))?;
        match failure {
            None => self.after_report(now, qp, true, wants),
            Some(cause) => {
                // A NAK below what completed names no request; then the oldest one reports the cause.
                let open = self.qps.get(qp as usize).is_some_and(|slot| psn.diff(slot.req.tack) > 0);
                self.fail_qp(now, qp, cause, open.then_some(psn));
                self.wake_control(qp);
            }
        }
        Ok(Received::Nothing)
    }

    /// What a SACK or Transport ACK lets the QP do; `done`: a request may complete. Even a SACK that counts as stale (a late
    /// probe answer) may have moved the window.
    #[inline(always)]
    fn after_report(&mut self, now: Instant, qp: u32, done: bool, wants: Wants) {
        self.wake_for(qp, wants);
        self.check_timer(now, qp);
        if done {
            self.complete(qp);
        }
    }

    /// NACK for our requester.
    pub(super) fn on_nack(&mut self, now: Instant, qp: u32, nack: &NackRepr, rtx: bool) -> Result<Received, Discard> {
        self.stats.rx_nack.inc();
        let trimmed = matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop);
        self.stats.rx_nack_trimmed.inc_by(u64::from(trimmed));
        let failure = self.with_tx(qp, |mut tx| tx.on_nack(now, nack, rtx)).unwrap_or(Err(Discard::State));
        if let Ok(Some(cause)) = failure {
            // A failure of the peer names the packet that met it; a spent retry budget is the oldest request's.
            let named = (nack.reason == NackReason::UnexpEvent).then_some(nack.psn);
            self.fail_qp(now, qp, cause, named);
        }
        self.wake(now, qp);
        failure.map(|_| Received::Nothing)
    }
}

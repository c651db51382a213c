//! Packets that the responder refused for want of room: they wait before they leave again, each from its own refusal on.
//! Everything else that is LOST leaves at once. Source: `transport.md` 3.7.

use mrc_wire::Psn;

use super::TxSide;
use crate::{
    num::Counter,
    time::{Instant, Tick},
};

/// Most doublings of the wait.
const MOST_DOUBLINGS: u8 = 6;

impl TxSide<'_, '_> {
    /// Packet `psn`, LOST now, was refused after `refusals` others since the window last moved.
    //= NACK-004, NACK-005
    pub(super) fn hold(&mut self, now: Instant, psn: Psn, refusals: u8) {
        let wait_ns = self.wait_ns(refusals);
        let Some(record) = self.window.record_mut(psn) else { return };
        record.refuse(Tick::at(now), refusals);
        self.window.set_held(psn, true);
        self.qp.req.held.inc();
        self.qp.req.next_release = self.qp.req.next_release.min(now.after(wait_ns));
    }

    /// A base round trip, doubled for each refusal before.
    fn wait_ns(&self, refusals: u8) -> u64 {
        self.qp.req.base_rtt_ns().wrapping_shl(refusals.min(MOST_DOUBLINGS).into())
    }

    /// Waits may have become shorter: looks at them again.
    pub(super) fn look_at_held(&mut self) {
        if self.qp.req.held > 0 {
            self.qp.req.next_release = Instant::ZERO;
        }
    }

    #[inline]
    pub(super) fn release_held(&mut self, now: Instant) {
        if now >= self.qp.req.next_release {
            self.release_due(now);
        }
    }

    /// Lets go what has waited long enough, and finds when the next one will have.
    #[inline(never)]
    pub(super) fn release_due(&mut self, now: Instant) {
        let (mut from, max) = (self.qp.req.unack, self.qp.req.max_sent);
        let mut next = Instant::FAR;
        while self.qp.req.held > 0
            && let Some(psn) = self.window.first_held(from, max)
        {
            from = psn;
            let Some(record) = self.window.record_mut(psn) else { continue };
            if self.qp.req.resource_nacks == 0 {
                // The window has moved: room comes back.
                record.refuse(record.sent_at, 0);
            }
            let (waited, refusals) = (record.sent_at.elapsed_ns(now), record.refusals());
            let wait = self.wait_ns(refusals);
            if waited >= wait {
                self.window.set_held(psn, false);
                self.qp.req.held.dec();
            } else {
                next = next.min(now.after(wait.saturating_sub(waited)));
            }
        }
        self.qp.req.next_release = next;
    }
}

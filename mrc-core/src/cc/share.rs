//! What a QP has to send and has in flight: its part of its congestion controller.

use super::Credit;

/// What a QP has to send and has in flight, and the sum of it over the QPs of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Nominal bytes of data never sent.
    pub backlog_bytes: u64,
    /// Packets in state LOST.
    pub waiting_rtx: u32,
    /// Their nominal bytes.
    pub rtx_backlog_bytes: u64,
    /// Packets sent and neither SACKED nor LOST.
    pub inflight_pkts: u32,
}

/// One QP's part of its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) load: Load,
    /// Its part of the bytes in flight that its controller counts; signed, because responders round up.
    pub(super) inflight: i64,
    /// Bytes settled before the responder reported them: their report takes nothing from what is in flight.
    pub(super) settled: i32,
    /// Bytes in flight that the controller does not count: they test whether a silent peer is there.
    pub(super) testing: i32,
    /// Bytes that the responder may hold without reporting them: sent since the last packet that asked, at most its
    /// threshold.
    pub(crate) unasked: u32,
    /// Packets sent again.
    pub(super) retransmitted: u32,
    /// Nominal bytes ever posted.
    pub(super) posted: u64,
    /// What it may still send in its turn.
    pub(crate) turn: Credit,
}

impl Share {
    pub(crate) const NONE: Self = Self {
        load: Load { backlog_bytes: 0, waiting_rtx: 0, rtx_backlog_bytes: 0, inflight_pkts: 0 },
        inflight: 0,
        settled: 0,
        testing: 0,
        unasked: 0,
        retransmitted: 0,
        posted: 0,
        turn: Credit::NONE,
    };

    pub(crate) const fn inflight_bytes(&self) -> i64 {
        self.inflight
    }

    /// Bytes in flight, whether or not its controller counts them.
    pub(super) const fn open_bytes(&self) -> i64 {
        self.inflight.saturating_add(self.testing as i64)
    }

    /// Nominal bytes that the responder has: posted, and neither waiting nor in flight.
    pub(crate) fn acked_bytes(&self) -> u64 {
        let load = &self.load;
        let open = load.backlog_bytes.saturating_add(load.rtx_backlog_bytes);
        self.posted.saturating_sub(open).saturating_sub(u64::try_from(self.open_bytes()).unwrap_or(0))
    }

    /// Nothing is in flight any more: what is left of it comes late or never. So much less counts as in flight.
    pub(super) fn settle(&mut self) -> i64 {
        let tested = core::mem::take(&mut self.testing);
        self.settled = self.settled.saturating_add(tested).saturating_add(narrow(self.inflight));
        core::mem::take(&mut self.inflight)
    }

    /// What is in flight only tests whether the peer is there. So much less counts.
    pub(super) fn set_apart(&mut self) -> i64 {
        self.testing = self.testing.saturating_add(narrow(self.inflight));
        core::mem::take(&mut self.inflight)
    }

    /// What is heard of `bytes` in flight is of those that its controller does not count, as far as there are any. So many.
    pub(super) fn take_settled(&mut self, bytes: u32) -> i64 {
        let early = bytes.min(self.settled.max(0).unsigned_abs());
        self.settled = self.settled.saturating_sub_unsigned(early);
        self.inflight = self.inflight.saturating_add(early.into());
        i64::from(early).saturating_add(self.take_testing(bytes.saturating_sub(early)))
    }

    /// As [`Self::take_settled`], of those that are in flight.
    pub(super) fn take_testing(&mut self, bytes: u32) -> i64 {
        let tested = bytes.min(self.testing.max(0).unsigned_abs());
        self.testing = self.testing.saturating_sub_unsigned(tested);
        self.inflight = self.inflight.saturating_add(tested.into());
        tested.into()
    }

    /// Packets sent again.
    pub(crate) const fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
}

/// Bytes of one QP, a window of less than 2^15 packets at most.
fn narrow(bytes: i64) -> i32 {
    bytes.max(i32::MIN.into()).min(i32::MAX.into()) as i32
}

crate::image::stored!(struct Load { backlog_bytes, waiting_rtx, rtx_backlog_bytes, inflight_pkts });
crate::image::stored!(struct Share { load, inflight, settled, testing, unasked, retransmitted, posted, turn });

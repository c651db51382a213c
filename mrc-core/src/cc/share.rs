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
    /// Its part of the bytes in flight; signed, because responders round up.
    pub(super) inflight: i64,
    /// Bytes settled before the responder reported them: their report takes nothing from what is in flight.
    pub(super) settled: i64,
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
        unasked: 0,
        retransmitted: 0,
        posted: 0,
        turn: Credit::NONE,
    };

    pub(crate) const fn inflight_bytes(&self) -> i64 {
        self.inflight
    }

    /// Nominal bytes that the responder has: posted, and neither waiting nor in flight.
    pub(crate) fn acked_bytes(&self) -> u64 {
        let load = &self.load;
        let open = load.backlog_bytes.saturating_add(load.rtx_backlog_bytes);
        self.posted.saturating_sub(open).saturating_sub(u64::try_from(self.inflight).unwrap_or(0))
    }

    /// Packets sent again.
    pub(crate) const fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
}

crate::image::stored!(struct Load { backlog_bytes, waiting_rtx, rtx_backlog_bytes, inflight_pkts });
crate::image::stored!(struct Share { load, inflight, settled, unasked, retransmitted, posted, turn });

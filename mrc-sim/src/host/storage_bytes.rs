//! What an engine's storage takes, reckoned from its limits before anything is allocated.

use mrc_core::path::EvSlot;
use mrc_core::{
    CcProfile, Completion, CqSlot, EvProfileSlot, EventSlot, Immediate, Limits, MrSlot, PeerSlot, PlaneSlot, Qp, Qpcc,
    RecvWqe, Refusal, RouteSlot, RxWord, TimerSlot, TxRecord, TxWord, Wqe, path::EvEntry,
};

macro_rules! sum {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $empty:expr, |$l:ident| $count:expr;)*) => {
        /// Bytes of all slices of [`mrc_core::Storage`].
        pub(super) fn storage_bytes(limits: &Limits) -> u64 {
            let mut sum = 0;
            $({ let $l = limits; sum += size_of::<$ty>() as u64 * $count as u64; })*
            sum
        }
    };
}

mrc_core::storage_slices!(sum);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_and_completions_count_beside_queue_pairs() {
        let one = Limits { qps: 1, peers: 1, qpccs: 1, cq_depth: 16, ..Limits::default() };
        let many = Limits { qps: 1000, peers: 1000, qpccs: 1000, cq_depth: 16384, ..one };
        assert!(storage_bytes(&one) > one.bytes_per_qp() as u64);
        let each = (storage_bytes(&many) - storage_bytes(&one)) / 999;
        let of_peer = size_of::<PeerSlot>() + 8 * size_of::<PlaneSlot>() + size_of::<RouteSlot>();
        let beside = of_peer + size_of::<Qpcc>() + 16 * size_of::<Completion>();
        assert!(each >= (many.bytes_per_qp() + beside) as u64, "{each}");
    }
}

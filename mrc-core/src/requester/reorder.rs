//! How much later than a missing packet one must have left, and arrived, for the missing one to count as lost: the
//! reordering window of RFC 8985 (RACK), section 6.2, kept by packets that were repeated in vain. Which packets are
//! suspected is in `feedback`.

use crate::num::Counter;
use crate::time::Instant;

/// Longest window, in multiples of the configured one.
const MOST: u8 = 16;

/// Losses in a row that were losses, after which the window is the configured one again (RFC 8985 section 6.2).
const PERSIST: u8 = 16;

/// The reordering window of one QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReorderDelay {
    configured_ns: u64,
    multiple: u8,
    in_need: u8,
    grown_at: Instant,
}

impl ReorderDelay {
    /// Time alone infers nothing.
    pub(crate) const OFF: Self = Self::new(0);

    pub(crate) const fn new(configured_ns: u64) -> Self {
        Self { configured_ns, multiple: 1, in_need: 0, grown_at: Instant::ZERO }
    }

    /// The window now, in nanoseconds: never below the configured one, and grown to a round trip at most.
    #[inline]
    pub(crate) fn delay_ns(self, srtt_ns: u64) -> Option<u64> {
        let grown = self.configured_ns.saturating_mul(self.multiple.into()).min(srtt_ns);
        (self.configured_ns > 0).then(|| grown.max(self.configured_ns))
    }

    /// A packet inferred lost had only been late: wait longer, by one step each round trip.
    pub(crate) fn repeated_in_vain(&mut self, now: Instant, srtt_ns: u64) {
        self.in_need = 0;
        if self.multiple == 1 || now.since(self.grown_at) >= srtt_ns {
            self.multiple = self.multiple.saturating_add(1).min(MOST);
            self.grown_at = now;
        }
    }

    /// A packet inferred lost was lost.
    pub(crate) fn repeated_in_need(&mut self) {
        self.in_need.inc();
        if self.in_need >= PERSIST {
            self.in_need = 0;
            self.multiple = 1;
        }
    }
}

crate::image::stored!(struct ReorderDelay { configured_ns, multiple, in_need, grown_at });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_once_a_round_trip_and_shrinks_after_sixteen_losses() {
        let at = Instant::from_nanos;
        let mut reorder = ReorderDelay::new(2_000);
        assert_eq!(reorder.delay_ns(10_000), Some(2_000));
        for (now, delay) in [(100, 4_000), (5_000, 4_000), (10_100, 6_000), (30_000, 8_000), (50_000, 10_000)] {
            reorder.repeated_in_vain(at(now), 10_000);
            assert_eq!(reorder.delay_ns(10_000), Some(delay), "at {now}");
        }
        // No longer than a round trip, but never shorter than was asked for.
        reorder.repeated_in_vain(at(70_000), 10_000);
        assert_eq!((reorder.delay_ns(10_000), reorder.delay_ns(1_000)), (Some(10_000), Some(2_000)));
        for _ in 0..15 {
            reorder.repeated_in_need();
        }
        assert_eq!(reorder.delay_ns(10_000), Some(10_000));
        reorder.repeated_in_need();
        assert_eq!(reorder.delay_ns(10_000), Some(2_000));
        assert_eq!(ReorderDelay::OFF.delay_ns(10_000), None);
    }
}

//! Rounds of acknowledgements on the path that carries a QP, as FlowBender and PLB count them. What a round means, and when to
//! leave the path, is theirs.
#![cfg_attr(not(feature = "research"), allow(dead_code, reason = "selectors of research use the rest"))]

use crate::time::Instant;

/// Acknowledgements of one round that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    seen: u16,
    marked: u16,
}

impl Round {
    /// The marked ones in tenths of a percent, and what they are compared with: both times the number of all.
    pub(super) fn against(self, threshold_permille: u16) -> (u32, u32) {
        let marked = u32::from(self.marked).wrapping_mul(1_000);
        (marked, u32::from(self.seen).wrapping_mul(threshold_permille.into()))
    }
}

/// The round that is under way: one round trip, the first acknowledgement after it ends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    end: Instant,
    /// Latest round trip, in nanoseconds: the length of the next round.
    rtt_ns: u32,
    seen: u16,
    marked: u16,
}

impl Rounds {
    pub(super) const NEW: Self = Self { end: Instant::ZERO, rtt_ns: 0, seen: 0, marked: 0 };

    /// A round trip was measured.
    pub(super) fn measured(&mut self, rtt_ns: u64) {
        self.rtt_ns = u32::try_from(rtt_ns).unwrap_or(u32::MAX);
    }

    /// The QP has another path: acknowledgements of the old one no longer count.
    pub(super) fn restart(&mut self) {
        (self.seen, self.marked) = (0, 0);
    }

    /// Counts one acknowledgement, which belongs to the new round when the old one, returned then, is over.
    pub(super) fn count(&mut self, now: Instant, marked: bool, base_rtt_ns: u64) -> Option<Round> {
        let mut ended = None;
        if now >= self.end {
            ended = Some(Round { seen: self.seen, marked: self.marked }).filter(|round| round.seen > 0);
            self.restart();
            self.end = now.after(base_rtt_ns.max(u64::from(self.rtt_ns)));
        }
        self.seen = self.seen.saturating_add(1);
        self.marked = self.marked.saturating_add(u16::from(marked));
        ended
    }
}

crate::image::stored!(struct Rounds { end, rtt_ns, seen, marked });

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    /// By hand: rounds of 10 us by the base RTT, then of 25 us by a measured one.
    #[test]
    fn a_round_lasts_the_longer_of_base_and_latest_round_trip() {
        let mut rounds = Rounds::NEW;
        assert_eq!(rounds.count(at(0), true, 10_000), None, "nothing was seen before");
        assert_eq!(rounds.count(at(9_999), false, 10_000), None);
        assert_eq!(rounds.count(at(10_000), false, 10_000), Some(Round { seen: 2, marked: 1 }));
        rounds.measured(25_000);
        assert_eq!(rounds.count(at(20_000), true, 10_000), Some(Round { seen: 1, marked: 0 }));
        assert_eq!(rounds.count(at(44_999), true, 10_000), None);
        assert_eq!(rounds.count(at(45_000), true, 10_000), Some(Round { seen: 2, marked: 2 }));
        rounds.restart();
        assert_eq!(rounds.count(at(90_000), true, 10_000), None, "the path is new");
    }

    #[test]
    fn shares_compare_without_division() {
        assert_eq!(Round { seen: 40, marked: 2 }.against(50), (2_000, 2_000));
        assert_eq!(Round { seen: u16::MAX, marked: u16::MAX }.against(1_000), (65_535_000, 65_535_000));
    }
}

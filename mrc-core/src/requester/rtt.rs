//! What counts as a round trip, and the smallest one known. Source: `congestion.md` 3.

use mrc_wire::Psn;

use super::{Requester, TxSide};
use crate::{Prefetch, time::Instant};

/// Shortest and longest round trip that a network can have. Below the first lies the resolution of timestamps: the clock is
/// coarse, or the responder says that it waited for as long as everything took. Above the second the process was stopped, or
/// the peer: no path has a base RTT beyond it either ([`crate::RtsAttr::base_rtt_ns`]).
const PLAUSIBLE_NS: core::ops::RangeInclusive<u64> = 128..=1_000_000_000;

/// Whether a packet may have taken so long, there and back.
pub(super) fn plausible(rtt_ns: u64) -> bool {
    PLAUSIBLE_NS.contains(&rtt_ns)
}

/// The smallest round trip of the recent past: never above the configured one, nor below a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseRtt {
    ns: u64,
    configured_ns: u64,
    /// Smallest sample since `since`, when the present value was measured or confirmed.
    lowest_ns: u64,
    since: Instant,
    life_ns: u64,
}

impl BaseRtt {
    /// Samples below this part of the configured round trip do not lower it further.
    const FLOOR_PART: u64 = 32;

    pub(super) const fn new(now: Instant, configured_ns: u64, life_ns: u64) -> Self {
        Self { ns: configured_ns, configured_ns, lowest_ns: u64::MAX, since: now, life_ns }
    }

    #[inline]
    pub(super) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.ns);
    }

    pub(super) const fn ns(&self) -> u64 {
        self.ns
    }

    /// Takes a plausible sample; whether the value changed. A value that no sample has confirmed for its life gives way to
    /// the smallest sample of that time.
    //= RTT-001
    pub(super) fn learn(&mut self, now: Instant, rtt_ns: u64) -> bool {
        let before = self.ns;
        let rtt_ns = rtt_ns.max(self.configured_ns / Self::FLOOR_PART);
        self.lowest_ns = self.lowest_ns.min(rtt_ns);
        let outlived = self.life_ns > 0 && now.since(self.since) >= self.life_ns;
        if rtt_ns <= self.ns || outlived {
            self.ns = self.lowest_ns.min(self.configured_ns);
            self.lowest_ns = u64::MAX;
            self.since = now;
        }
        self.ns != before
    }
}

impl TxSide<'_, '_> {
    /// Round trip of data packet `psn`, as congestion control wants it. One of a request that is complete may have had any payload.
    //= RTT-003
    #[inline]
    pub(super) fn full_rtt_ns(&self, rtt_ns: u64, psn: Psn) -> u64 {
        let path_mtu = self.qp.req.path_mtu;
        let payload = || self.qp.sq.find(self.ring, psn).map_or(0, |segment| segment.payload_len(path_mtu));
        self.qpcc.full_rtt_ns(rtt_ns, payload)
    }
}

impl Requester {
    /// The line that says how long an answer may take.
    #[inline]
    pub(crate) fn fetch_patience(&self, memory: &impl Prefetch) {
        self.base_rtt.fetch(memory);
    }
}

crate::image::stored!(struct BaseRtt { ns, configured_ns, lowest_ns, since, life_ns });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_that_nothing_confirms_is_forgotten_after_its_life() {
        let at = Instant::from_nanos;
        let mut base = BaseRtt::new(at(0), 50_000, 10_000_000);
        assert!(base.learn(at(1_000), 9_000) && base.ns() == 9_000);
        assert!(base.learn(at(2_000), 200) && base.ns() == 50_000 / 32, "no lower than a part of the configured one");
        for now in [3_000, 5_000_000, 10_001_999] {
            assert!(!base.learn(at(now), 12_000 + now / 1_000));
        }
        assert!(base.learn(at(10_002_000), 40_000) && base.ns() == 12_003);
        // Never above the configured one: a standing queue is no base.
        assert!(base.learn(at(30_000_000), 900_000) && base.ns() == 50_000);
        let mut forever = BaseRtt::new(at(0), 50_000, 0);
        assert!(forever.learn(at(1_000), 9_000) && !forever.learn(at(1 << 40), 12_000));
    }

    #[test]
    fn what_no_network_does_is_no_round_trip() {
        for (rtt_ns, is) in [(0, false), (127, false), (128, true), (1_000_000_000, true), (34_000_000_000, false)] {
            assert_eq!(plausible(rtt_ns), is, "{rtt_ns}");
        }
    }
}

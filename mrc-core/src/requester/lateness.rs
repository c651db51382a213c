//! How late packets arrive that are not lost: measured over all planes and for each plane alone, so that losses can be told
//! from reordering. A packet is as late as the newest packet that arrived before it left after it. RFC 8985 section 6.2 adapts
//! its reordering window to duplicates; a SACK names the packet that triggered it, so that lateness is measured directly.

use crate::{path::MAX_PLANES, time::Instant};

/// Where a lateness was measured: plane by plane, and over all of them.
const SCOPES: usize = MAX_PLANES + 1;
const ALL_PLANES: usize = MAX_PLANES;

/// The lateness that a QP's packets are known to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    /// Part of the largest lateness that is tolerated, in 1/256; 0 = nothing is measured.
    factor: u16,
    /// Tolerance over all planes in any case.
    floor_ns: u64,
    /// Longest tolerance: beyond it a packet's timer decides.
    most_ns: u64,
    life_ns: u64,
    /// When the newest packet left that has arrived.
    newest: [Instant; SCOPES],
    /// Largest lateness since `since`, and in the time of the same length before it, in nanoseconds.
    recent_ns: [u32; SCOPES],
    older_ns: [u32; SCOPES],
    since: Instant,
}

impl Lateness {
    /// Reads the lines that an arrival reads.
    pub(super) fn fetch(&self) -> u64 {
        let all = self.newest.get(ALL_PLANES).map_or(0, |newest| newest.as_nanos());
        self.newest.first().map_or(all, |newest| newest.as_nanos() ^ all)
    }

    pub(super) const fn new(now: Instant, (factor, floor_ns): (u16, u64), most_ns: u64, life_ns: u64) -> Self {
        let (newest, none) = ([Instant::ZERO; SCOPES], [0; SCOPES]);
        Self { factor, floor_ns, most_ns, life_ns, newest, recent_ns: none, older_ns: none, since: now }
    }

    /// Whether anything is measured.
    #[inline]
    pub(super) const fn measures(&self) -> bool {
        self.factor > 0
    }

    /// A packet that left through `plane` at `sent` has just arrived.
    #[inline(always)]
    pub(super) fn late(&mut self, now: Instant, plane: usize, sent: Instant) {
        if self.life_ns > 0 && now.since(self.since) >= self.life_ns {
            self.age(now);
        }
        for scope in [plane, ALL_PLANES] {
            if let (Some(newest), Some(most)) = (self.newest.get(scope), self.recent_ns.get_mut(scope)) {
                *most = (*most).max(u32::try_from(newest.since(sent)).unwrap_or(u32::MAX));
            }
        }
    }

    /// What was measured until `now` is older from here on.
    #[inline(never)]
    fn age(&mut self, now: Instant) {
        self.older_ns = core::mem::replace(&mut self.recent_ns, [0; SCOPES]);
        self.since = now;
    }

    /// A packet that left through `plane` at `sent` is known to have arrived.
    #[inline(always)]
    pub(super) fn arrived(&mut self, plane: usize, sent: Instant) {
        for scope in [plane, ALL_PLANES] {
            if let Some(newest) = self.newest.get_mut(scope) {
                *newest = (*newest).max(sent);
            }
        }
    }

    /// Whether anything that left after `sent` is known to have arrived; not known where nothing is measured.
    pub(super) fn overtaken(&self, sent: Instant) -> bool {
        !self.measures() || self.newest.get(ALL_PLANES).is_some_and(|newest| *newest > sent)
    }

    fn tolerance_ns(&self, scope: usize) -> u64 {
        let of = |ns: &[u32; SCOPES]| ns.get(scope).copied().unwrap_or(0);
        let most = u64::from(of(&self.recent_ns).max(of(&self.older_ns)));
        (most.saturating_mul(self.factor.into()) >> 8).min(self.most_ns)
    }

    /// How much later than a packet one must have left, on any plane, to prove it lost.
    pub(super) fn any_plane_ns(&self) -> u64 {
        if self.measures() { self.tolerance_ns(ALL_PLANES).max(self.floor_ns).min(self.most_ns) } else { 0 }
    }

    /// How much later one on the same plane must have left: at least a quarter of the base RTT (RFC 8985 section 6.2).
    pub(super) fn same_plane_ns(&self, plane: usize, base_rtt_ns: u64) -> u64 {
        if self.measures() { self.tolerance_ns(plane).max(base_rtt_ns / 4) } else { 0 }
    }

    /// Whether a packet that left through `plane` at `sent` is later than any was that arrived.
    pub(super) fn overdue(&self, plane: usize, sent: Instant, base_rtt_ns: u64) -> bool {
        let later = |scope: usize| self.newest.get(scope).map_or(0, |newest| newest.since(sent));
        !self.measures()
            || later(ALL_PLANES) >= self.any_plane_ns()
            || later(plane) >= self.same_plane_ns(plane, base_rtt_ns)
    }
}

crate::image::stored!(struct Lateness { factor, floor_ns, most_ns, life_ns, newest, recent_ns, older_ns, since });

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: u64 = 1_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_late_plane_does_not_make_the_others_patient() {
        let mut late = Lateness::new(at(0), (512, 0), 1 << 24, LIFE);
        late.arrived(0, at(9_000));
        assert!(late.overdue(0, at(8_000), 1_000) && late.overdue(1, at(8_000), 1_000), "nothing was late so far");
        late.late(at(10_000), 1, at(4_000));
        // 5 us late, so that 10 us are tolerated between planes; within plane 0 nothing was late.
        assert!(!late.overdue(1, at(1_000), 1_000) && late.overdue(0, at(1_000), 1_000));
        assert!(late.overtaken(at(8_999)) && !late.overtaken(at(9_000)));
        late.arrived(0, at(11_000));
        assert!(late.overdue(1, at(1_000), 1_000) && !late.overdue(1, at(1_001), 1_000));
        assert!(!late.overdue(0, at(10_800), 1_000), "a quarter of the base RTT at least");
    }

    #[test]
    fn lateness_is_forgotten_and_bounded() {
        let floor = Lateness::new(at(0), (512, 7_000), 30_000, LIFE);
        assert_eq!((floor.any_plane_ns(), floor.same_plane_ns(0, 1_000)), (7_000, 250));
        let mut late = Lateness::new(at(0), (512, 0), 30_000, LIFE);
        late.arrived(0, at(20_000));
        late.late(at(21_000), 1, at(0));
        assert_eq!(late.any_plane_ns(), 30_000);
        late.late(at(LIFE), 0, at(20_000));
        assert_eq!(late.any_plane_ns(), 30_000, "the time before counts");
        late.late(at(2 * LIFE), 0, at(20_000));
        assert_eq!(late.any_plane_ns(), 0);
        let mut kept = Lateness::new(at(0), (512, 0), 30_000, 0);
        kept.arrived(0, at(10_000));
        for now in [11_000, LIFE, 5 * LIFE] {
            kept.late(at(now), 1, at(5_000));
            assert_eq!(kept.any_plane_ns(), 10_000, "without a life nothing is forgotten");
            kept.late(at(now), 0, at(10_000));
            kept.late(at(now), 0, at(10_000));
        }
        assert_eq!(kept.any_plane_ns(), 10_000);
        let off = Lateness::new(at(0), (0, 9), 30_000, LIFE);
        assert!(off.overdue(0, at(5), 1_000) && off.same_plane_ns(0, 1_000) == 0);
    }
}

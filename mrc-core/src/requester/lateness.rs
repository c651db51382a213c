//! How late packets arrive that are not lost: measured over all planes and for each plane alone, so that losses can be told
//! from reordering. A packet is as late as the newest packet that arrived before it left after it. RFC 8985 section 6.2 adapts
//! its reordering window to duplicates; a SACK names the packet that triggered it, so that lateness is measured directly.

use crate::{Prefetch, path::MAX_PLANES, time::Instant};

/// Where a lateness was measured: over all planes, and plane by plane.
const SCOPES: usize = MAX_PLANES + 1;
const ALL_PLANES: usize = 0;

const fn scope_of(plane: usize) -> usize {
    plane.wrapping_add(1)
}

/// What was measured in one scope.
#[derive(Clone, Copy, Debug)]
struct Scope {
    /// When the newest packet left that has arrived.
    newest: Instant,
    /// Largest lateness since [`Lateness::since`], and in the time of the same length before it, in nanoseconds.
    recent_ns: u32,
    older_ns: u32,
}

impl Scope {
    const NONE: Self = Self { newest: Instant::ZERO, recent_ns: 0, older_ns: 0 };
}

/// The lateness that a QP's packets are known to have.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Lateness {
    /// Part of the largest lateness that is tolerated, in 1/256; 0 = nothing is measured.
    factor: u16,
    /// Tolerance over all planes in any case.
    floor_ns: u64,
    /// Longest tolerance: beyond it a packet's timer decides.
    most_ns: u64,
    life_ns: u64,
    since: Instant,
    scopes: [Scope; SCOPES],
}

impl Lateness {
    /// The lines of memory that an arrival reads.
    pub(super) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.life_ns);
        memory.prefetch_all(self.scopes.get(1).map(|scope| &scope.older_ns));
    }

    pub(super) const fn new(now: Instant, (factor, floor_ns): (u16, u64), most_ns: u64, life_ns: u64) -> Self {
        Self { factor, floor_ns, most_ns, life_ns, since: now, scopes: [Scope::NONE; SCOPES] }
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
        for scope in [scope_of(plane), ALL_PLANES] {
            if let Some(scope) = self.scopes.get_mut(scope) {
                scope.recent_ns = scope.recent_ns.max(u32::try_from(scope.newest.since(sent)).unwrap_or(u32::MAX));
            }
        }
    }

    /// What was measured until `now` is older from here on.
    #[inline(never)]
    fn age(&mut self, now: Instant) {
        for scope in &mut self.scopes {
            scope.older_ns = core::mem::take(&mut scope.recent_ns);
        }
        self.since = now;
    }

    /// A packet that left through `plane` at `sent` is known to have arrived.
    #[inline(always)]
    pub(super) fn arrived(&mut self, plane: usize, sent: Instant) {
        for scope in [scope_of(plane), ALL_PLANES] {
            if let Some(scope) = self.scopes.get_mut(scope) {
                scope.newest = scope.newest.max(sent);
            }
        }
    }

    /// Whether anything that left after `sent` is known to have arrived; not known where nothing is measured.
    pub(super) fn overtaken(&self, sent: Instant) -> bool {
        !self.measures() || self.scopes[ALL_PLANES].newest > sent
    }

    fn tolerance_ns(&self, scope: usize) -> u64 {
        let scope = self.scopes.get(scope).unwrap_or(&Scope::NONE);
        let most = u64::from(scope.recent_ns.max(scope.older_ns));
        (most.saturating_mul(self.factor.into()) >> 8).min(self.most_ns)
    }

    /// How much later than a packet one must have left, on any plane, to prove it lost.
    pub(super) fn any_plane_ns(&self) -> u64 {
        if self.measures() { self.tolerance_ns(ALL_PLANES).max(self.floor_ns).min(self.most_ns) } else { 0 }
    }

    /// How much later one on the same plane must have left: at least a quarter of the base RTT (RFC 8985 section 6.2).
    pub(super) fn same_plane_ns(&self, plane: usize, base_rtt_ns: u64) -> u64 {
        if self.measures() { self.tolerance_ns(scope_of(plane)).max(base_rtt_ns / 4) } else { 0 }
    }

    /// Whether a packet that left through `plane` at `sent` is later than any was that arrived.
    pub(super) fn overdue(&self, plane: usize, sent: Instant, base_rtt_ns: u64) -> bool {
        let later = |scope: usize| self.scopes.get(scope).map_or(0, |scope| scope.newest.since(sent));
        !self.measures()
            || later(ALL_PLANES) >= self.any_plane_ns()
            || later(scope_of(plane)) >= self.same_plane_ns(plane, base_rtt_ns)
    }
}

crate::image::stored!(struct Scope { newest, recent_ns, older_ns });
crate::image::stored!(struct Lateness { factor, floor_ns, most_ns, life_ns, since, scopes });

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

    #[test]
    fn an_arrival_reads_the_scopes_and_how_long_they_live() {
        let (lateness, asked) = (Lateness::new(at(0), (512, 0), 1 << 24, LIFE), crate::prefetch::Asked::default());
        lateness.fetch(&asked);
        assert_eq!((asked.within(&lateness.life_ns), asked.within(&lateness.scopes)), (1, 1));
    }
}

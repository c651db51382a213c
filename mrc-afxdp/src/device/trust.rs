//! Decides whether the device's thread may sleep while an application thread polls. Some applications stop polling without
//! notice, because they wait for writes by spinning on their memory. Received frames then wait until the device's thread
//! wakes up. For such a program the thread stays awake and works beside it.

use mrc_core::Instant;

/// What a nap that left frames waiting weighs, against one that did not; how much of it ends trust; and for how long.
const DESERTED: u32 = 8;
const TOO_OFTEN: u32 = 32;
const BREAK_NS: u64 = 5_000_000;

/// The shortest nap and the longest; between them, naps take this part of the time for which nothing has waited. A helper that
/// is met in the middle of a turn is there for sure, so the nap behind is the longest: where the thread has the helper's CPU,
/// each look costs the helper 10 to 20 us, and a look every 50 us doubles the latency of small writes.
const SHORTEST_NS: u64 = 50_000;
pub(super) const LONGEST_NS: u64 = 500_000;
const PART: u64 = 32;

/// Whether the device's thread may leave the work to helpers, and for how long.
#[derive(Debug, Default)]
pub(super) struct Trust {
    deserted: u32,
    again_at: Instant,
    /// Since when nothing has waited for the end of a nap.
    since: Instant,
}

impl Trust {
    pub(super) fn allows(&self, now: Instant) -> bool {
        now >= self.again_at
    }

    /// A nap is over; the helper had gone, and frames had come (`frames_waited`), or something else was due (`late`).
    pub(super) fn nap_ended(&mut self, now: Instant, frames_waited: bool, late: bool) {
        if frames_waited || late {
            self.since = now;
        }
        if !frames_waited {
            self.deserted = self.deserted.saturating_sub(1);
            return;
        }
        self.deserted += DESERTED;
        if self.deserted >= TOO_OFTEN {
            self.deserted = 0;
            self.again_at = now.after(BREAK_NS);
        }
    }

    /// The device had nothing to do: who comes next is somebody new.
    pub(super) fn forget(&mut self, now: Instant) {
        self.since = now;
    }

    /// How long a nap may be, in nanoseconds: the longest time that frames wait when a helper goes away.
    pub(super) fn nap_ns(&self, now: Instant) -> u64 {
        (now.since(self.since) / PART).clamp(SHORTEST_NS, LONGEST_NS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_goes_away_now_and_then_is_trusted() {
        let mut trust = Trust::default();
        for nap in 0..10_000u64 {
            let now = Instant::from_nanos(nap * 50_000);
            trust.nap_ended(now, nap % 10 == 0, false);
            assert!(trust.allows(now));
        }
    }

    #[test]
    fn a_helper_that_always_goes_away_is_not_for_a_while() {
        let (mut trust, now) = (Trust::default(), Instant::from_nanos(1));
        for _ in 0..TOO_OFTEN / DESERTED {
            assert!(trust.allows(now));
            trust.nap_ended(now, true, true);
        }
        assert!(!trust.allows(now.after(BREAK_NS - 1)));
        assert!(trust.allows(now.after(BREAK_NS)));
    }
    #[test]
    fn naps_grow_while_nothing_waits_and_cost_little_when_something_does() {
        let mut trust = Trust::default();
        let start = 1_000_000_000;
        trust.forget(Instant::from_nanos(start));
        let mut ns = start;
        for stay in [0, 1_000_000, 5_000_000, 10_000_000, 1_000_000_000] {
            let came = ns;
            while ns < came + stay {
                let nap = trust.nap_ns(Instant::from_nanos(ns));
                assert!((SHORTEST_NS..=LONGEST_NS).contains(&nap));
                assert!(nap <= SHORTEST_NS.max((ns - came) / PART));
                ns += nap;
                trust.nap_ended(Instant::from_nanos(ns), false, false);
            }
            let last = trust.nap_ns(Instant::from_nanos(ns));
            assert!(stay < LONGEST_NS * PART || last == LONGEST_NS, "{last}");
            trust.nap_ended(Instant::from_nanos(ns), false, true);
            assert_eq!(trust.nap_ns(Instant::from_nanos(ns)), SHORTEST_NS);
        }
    }
}

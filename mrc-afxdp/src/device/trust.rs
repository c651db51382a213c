//! Whether helpers stay. A program that polls for completions but waits for writes on its memory goes away without a word,
//! and frames wait for the end of a nap. Where that is the rule, the device's thread works beside the program.

use mrc_core::Instant;

/// What a nap that left frames waiting weighs, against one that did not; how much of it ends trust; and for how long.
const DESERTED: u32 = 8;
const TOO_OFTEN: u32 = 32;
const BREAK_NS: u64 = 5_000_000;

/// Whether the device's thread may leave the work to helpers.
#[derive(Debug, Default)]
pub(super) struct Trust {
    deserted: u32,
    again_at: Instant,
}

impl Trust {
    pub(super) fn allows(&self, now: Instant) -> bool {
        now >= self.again_at
    }

    /// A nap is over; `frames_waited`: the helper had gone, and frames had come.
    pub(super) fn nap_ended(&mut self, now: Instant, frames_waited: bool) {
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
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_goes_away_now_and_then_is_trusted() {
        let mut trust = Trust::default();
        for nap in 0..10_000u64 {
            let now = Instant::from_nanos(nap * 50_000);
            trust.nap_ended(now, nap % 10 == 0);
            assert!(trust.allows(now));
        }
    }

    #[test]
    fn a_helper_that_always_goes_away_is_not_for_a_while() {
        let (mut trust, now) = (Trust::default(), Instant::from_nanos(1));
        for _ in 0..TOO_OFTEN / DESERTED {
            assert!(trust.allows(now));
            trust.nap_ended(now, true);
        }
        assert!(!trust.allows(now.after(BREAK_NS - 1)));
        assert!(trust.allows(now.after(BREAK_NS)));
    }
}

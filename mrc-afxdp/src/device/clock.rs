//! The device's clock: time since it was opened, as the engine sees it. It may run slower than real time, for tests with a
//! peer that cannot keep up.

use std::num::NonZeroU32;

use mrc_core::Instant;

/// A clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: std::time::Instant,
    slowness: NonZeroU32,
}

impl Clock {
    /// A clock on which a nanosecond takes `slowness` nanoseconds of real time.
    pub(super) fn start(slowness: NonZeroU32) -> Self {
        Self { origin: std::time::Instant::now(), slowness }
    }

    /// The time.
    pub(super) fn now(self) -> Instant {
        let real = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(if self.slowness == NonZeroU32::MIN { real } else { real / u64::from(self.slowness.get()) })
    }

    /// How long `nanos` of this clock take in real time.
    pub(super) fn real(self, nanos: u64) -> u64 {
        nanos.saturating_mul(self.slowness.get().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_shows_a_part_of_real_time() {
        let real = std::time::Instant::now();
        let (even, slow) = (Clock::start(NonZeroU32::MIN), Clock::start(NonZeroU32::new(1_000).unwrap()));
        std::thread::sleep(std::time::Duration::from_millis(2));
        let (even, slow) = (even.now().as_nanos(), slow.now().as_nanos());
        let real = real.elapsed().as_nanos() as u64;
        assert!(
            (2_000_000..=real).contains(&even) && (2_000..=real / 1_000).contains(&slow),
            "{even} {slow} of {real}"
        );
        assert_eq!(Clock::start(NonZeroU32::new(7).unwrap()).real(3), 21);
    }
}

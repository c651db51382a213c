//! Time as the engine sees it: nanoseconds that the driver hands in. Owns no clock.

/// A point in the driver's monotonic time, in nanoseconds since an origin of its choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every other instant.
    pub const FAR: Self = Self(u64::MAX);

    /// `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant moved `ns` nanoseconds into the future, stopping at [`Instant::FAR`].
    #[must_use]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this instant, 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// In the ticks of 128 ns that packets carry, 16 bits (`wire.md` 15).
    #[inline(always)]
    pub(crate) const fn stamp(self) -> u16 {
        (self.0 >> 7) as u16
    }
}

/// A send time in four bytes: 16 ns per tick, unambiguous for 68.7 s, longer than the longest timer (17.2 s).
///
/// Halves the per-PSN record; RTT samples keep a resolution of 16 ns (`congestion.md` asks for 128 ns). Who keeps one for longer
/// has to bring it forward in time (`TxRecord::keep_age`). An endpoint that nobody calls for 68.7 s reads such an age modulo
/// 68.7 s once: a deadline then comes late by at most what it was to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tick(u32);

impl Tick {
    /// Half of what is unambiguous: an age that is kept is at most this, in nanoseconds.
    pub(crate) const OLDEST_NS: u64 = 1 << 35;

    /// The tick `ns` before `now`, or the first.
    pub(crate) const fn before(now: Instant, ns: u64) -> Self {
        Self::at(Instant(now.0.saturating_sub(ns)))
    }

    /// The tick that `now` falls in.
    pub const fn at(now: Instant) -> Self {
        Self((now.0 >> 4) as u32)
    }

    /// The same time in the 16-bit ticks of 128 ns that packets carry.
    pub const fn stamp(self) -> u16 {
        (self.0 >> 3) as u16
    }

    /// Nanoseconds from this tick to `now`, which is not before it, modulo 68.7 s.
    pub const fn elapsed_ns(self, now: Instant) -> u64 {
        let ticks = ((now.0 >> 4) as u32).wrapping_sub(self.0);
        (ticks as u64) << 4
    }
}

crate::image::stored!(newtype Instant);
crate::image::stored!(newtype Tick);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_survive_their_wrap() {
        let sent = Instant::from_nanos((u32::MAX as u64) << 4);
        let now = sent.after(5_000);
        assert_eq!(Tick::at(sent).elapsed_ns(sent.after(60_000_000_000)), 60_000_000_000);
        assert_eq!(Tick::at(sent).elapsed_ns(now), 4_992);
        assert_eq!(Tick::at(Instant::from_nanos(128 * 0x1_2345 + 127)).stamp(), 0x2345);
    }

    #[test]
    fn instants_saturate() {
        assert_eq!(Instant::FAR.after(1), Instant::FAR);
        assert_eq!(Instant::ZERO.since(Instant::FAR), 0);
    }
}

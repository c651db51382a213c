//! Counting without a panic, at any level of optimisation and with overflow checks on or off.
//!
//! Sums and differences that cannot leave their type are written `wrapping_add` and `wrapping_sub`, which cost nothing; those
//! that could are saturating or checked. `+=` and `-=` on counters have these short names. A count that overflows is a
//! defect: builds with debug assertions, as tests are, stop there.

/// An integer that counts.
pub(crate) trait Counter: Copy {
    /// Adds one.
    fn inc(&mut self);
    /// Adds `n`.
    fn inc_by(&mut self, n: Self);
    /// Takes one away; 0 stays 0.
    fn dec(&mut self);
    /// Takes `n` away, down to 0 at most.
    fn dec_by(&mut self, n: Self);
}

macro_rules! counter {
    ($($int:ty),*) => {$(
        impl Counter for $int {
            #[inline(always)]
            fn inc(&mut self) {
                self.inc_by(1);
            }

            #[inline(always)]
            fn inc_by(&mut self, n: Self) {
                debug_assert!(self.checked_add(n).is_some(), "{self} + {n} overflows");
                *self = self.wrapping_add(n);
            }

            #[inline(always)]
            fn dec(&mut self) {
                self.dec_by(1);
            }

            #[inline(always)]
            fn dec_by(&mut self, n: Self) {
                debug_assert!(*self >= n, "{self} - {n} is below 0");
                *self = self.saturating_sub(n);
            }
        }
    )*};
}

counter!(u8, u16, u32, u64, usize);

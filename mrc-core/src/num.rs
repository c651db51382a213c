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

/// The lowest `n` bits of a word; all from 64 on.
#[inline(always)]
pub(crate) const fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { !u64::MAX.wrapping_shl(n) }
}

/// 64 bits of a ring of words from bit `shift` of `low` on, `high` being the next word. `shift` is below 64.
#[inline(always)]
pub(crate) const fn across(low: u64, high: u64, shift: u32) -> u64 {
    // In two steps, since nothing is left of `high` when `shift` is 0.
    low.wrapping_shr(shift) | (high << 1).wrapping_shl(!shift & 63)
}

/// The two words into which the 64 bits `bits` fall when they begin at bit `shift` of the first one. `shift` is below 64.
#[inline(always)]
pub(crate) const fn spread(bits: u64, shift: u32) -> (u64, u64) {
    (bits.wrapping_shl(shift), (bits >> 1).wrapping_shr(!shift & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_ring_at_every_place() {
        let (low, high) = (0x8123_4567_89AB_CDEF_u64, 0xFEDC_BA98_7654_3211_u64);
        let ring = u128::from(high) << 64 | u128::from(low);
        for shift in 0..64 {
            assert_eq!(across(low, high, shift), (ring >> shift) as u64);
            let (first, second) = spread(low, shift);
            assert_eq!(u128::from(second) << 64 | u128::from(first), u128::from(low) << shift);
            assert_eq!(low_bits(shift), (1 << shift) - 1);
        }
        assert_eq!((low_bits(64), low_bits(u32::MAX)), (u64::MAX, u64::MAX));
    }
}

//! Packet sequence numbers: serial arithmetic modulo 2^24 and the PSNs a SACK names.
//!
//! Owns the only place where PSNs are compared. wire.md section 0.

use core::fmt;
use core::iter::FusedIterator;

/// A packet sequence number, 24 bits, wrapping.
///
/// Not `Ord` on purpose: only [`Psn::diff`] knows about the wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0x00FF_FFFF;

    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The number, below 2^24.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The PSN after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The PSN `n` packets later.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "the operand is a count, not a PSN")]
    pub const fn add(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The PSN `n` packets earlier.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "the operand is a count, not a PSN")]
    pub const fn sub(self, n: u32) -> Self {
        Self::new(self.0.wrapping_sub(n))
    }

    /// The PSN `n` packets later, or earlier when `n` is negative.
    #[inline]
    #[must_use]
    pub const fn offset(self, n: i32) -> Self {
        self.add(n.cast_unsigned())
    }

    /// `self - other` as a signed 24-bit number, in `[-2^23, 2^23)`.
    #[inline]
    #[must_use]
    pub const fn diff(self, other: Self) -> i32 {
        //= GEN-003
        self.0.wrapping_sub(other.0).wrapping_shl(8).cast_signed() >> 8
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The PSNs a SACK bitmap marks as received, lowest first.
///
/// ```
/// use mrc_wire::{Psn, SackPsns};
/// let psns: Vec<u32> = SackPsns::new(Psn::new(0x100), 1, 0b10110).map(Psn::value).collect();
/// assert_eq!(psns, [0x102, 0x103, 0x105]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackPsns {
    base: Psn,
    bitmap: u64,
}

impl SackPsns {
    /// Bit `i` of `bitmap` stands for PSN `cack + sack_offset + i`.
    #[inline]
    #[must_use]
    pub const fn new(cack: Psn, sack_offset: i16, bitmap: u64) -> Self {
        //= SETH-008
        Self { base: cack.offset(sack_offset as i32), bitmap }
    }
}

impl Iterator for SackPsns {
    type Item = Psn;

    #[inline]
    fn next(&mut self) -> Option<Psn> {
        if self.bitmap == 0 {
            return None;
        }
        let bit = self.bitmap.trailing_zeros();
        self.bitmap &= self.bitmap.wrapping_sub(1);
        Some(self.base.add(bit))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.bitmap.count_ones() as usize;
        (n, Some(n))
    }
}

impl ExactSizeIterator for SackPsns {}
impl FusedIterator for SackPsns {}

#[cfg(test)]
mod tests {
    use super::Psn;

    //= GEN-003 test
    #[test]
    fn differences_are_signed_and_wrap() {
        let d = |a, b| Psn::new(a).diff(Psn::new(b));
        assert_eq!(d(1, 0xFF_FFFF), 2);
        assert_eq!(d(0xFF_FFFF, 1), -2);
        assert_eq!(d(0x80_0000, 0), -0x80_0000);
        assert_eq!(d(0x7F_FFFF, 0), 0x7F_FFFF);
        assert_eq!(d(5, 5), 0);
    }

    #[test]
    fn steps_wrap_at_24_bits() {
        assert_eq!(Psn::new(0xFF_FFFF).next(), Psn::new(0));
        assert_eq!(Psn::new(0).sub(1), Psn::new(0xFF_FFFF));
        assert_eq!(Psn::new(2).offset(-7), Psn::new(0xFF_FFFB));
        assert_eq!(Psn::new(0x0100_0005).value(), 5, "the ninth bit of the top byte is not part of a PSN");
    }
}

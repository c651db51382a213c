//! Randomness that everybody may see, such as the order of paths: cheap, and the same again from the same seed.

/// SplitMix64: 8 bytes of state, one multiply chain per number. Two numbers in a row tell the state and with it all others,
/// so that keys and identifiers come from a keyed generator instead (`secret`).
#[derive(Clone, Copy, Debug)]
pub struct Rng(u64);

impl Rng {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// A generator that replays the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `[0, n)`; 0 when `n` is 0. The bias is below `n / 2^32`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((self.next_u64() >> 32).wrapping_mul(n as u64) >> 32) as u32
    }

    /// Goes on as if so many numbers had been drawn.
    #[inline]
    pub(crate) const fn skip(&mut self, numbers: u32) {
        self.0 = self.0.wrapping_add(Self::STEP.wrapping_mul(numbers as u64));
    }

    /// A generator whose numbers are independent of this one's.
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

crate::image::stored!(newtype Rng);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below_and_covers() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn skipped_numbers_are_those_that_would_have_been_drawn() {
        for numbers in [0, 1, 5, u32::MAX] {
            let (mut drawn, mut skipped) = (Rng::new(3), Rng::new(3));
            (0..numbers.min(1_000)).for_each(|_| _ = drawn.next_u64());
            drawn.skip(numbers.saturating_sub(1_000));
            skipped.skip(numbers);
            assert_eq!(drawn.next_u64(), skipped.next_u64());
        }
    }
}

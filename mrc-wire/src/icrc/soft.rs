//! CRC-32 with a table of sixteen words, for targets without `crc32fast`: 64 bytes of table, two look-ups a byte.

use super::engine::AFTER_EIGHT_ONES;

/// 0x04C11DB7 with its bits reversed.
//= ICRC-001
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// Register change for each value of the four bits shifted out.
const TABLE: [u32; 16] = table();

const fn table() -> [u32; 16] {
    let mut t = [0; 16];
    let mut rest: &mut [u32] = &mut t;
    let mut nibble = 0;
    while let [entry, after @ ..] = rest {
        let mut reg: u32 = nibble;
        let mut bit = 0;
        while bit < 4 {
            reg = if reg & 1 == 1 { reg >> 1 ^ POLYNOMIAL } else { reg >> 1 };
            bit = u32::wrapping_add(bit, 1);
        }
        *entry = reg;
        rest = after;
        nibble = u32::wrapping_add(nibble, 1);
    }
    t
}

/// The register after its lowest four bits were shifted out.
#[inline(always)]
fn four_bits(reg: u32) -> u32 {
    // The mask keeps the place inside of the table.
    reg >> 4 ^ TABLE.get((reg & 15) as usize).copied().unwrap_or(0)
}

/// The register, uncomplemented.
#[derive(Clone, Debug)]
pub(super) struct Crc(u32);

impl Crc {
    #[inline]
    pub(super) fn after_eight_ones() -> Self {
        Self(!AFTER_EIGHT_ONES)
    }

    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self(0xFFFF_FFFF)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        let mut reg = self.0;
        for byte in bytes {
            reg ^= u32::from(*byte);
            reg = four_bits(four_bits(reg));
        }
        self.0 = reg;
    }

    #[inline]
    pub(super) fn finish(self) -> u32 {
        !self.0
    }
}

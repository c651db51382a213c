//! Fields of headers as data: name, place and width, and how to read and write them. Knows no protocol.

/// One field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name inside its header.
    pub name: &'static str,
    /// Bits, 1 to 128.
    pub bits: u8,
    /// Two's complement.
    pub signed: bool,
}

/// A header: fields from the first bit of the first byte on, without holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the header, the part before the dot in a qualified field name.
    pub name: &'static str,
    /// Its fields in wire order.
    pub fields: &'static [Field],
}

impl Layout {
    /// Bytes of the header.
    pub fn bytes(&self) -> usize {
        self.fields.iter().map(|field| usize::from(field.bits)).sum::<usize>() / 8
    }

    /// The fields with their first bits.
    pub fn places(&self) -> impl Iterator<Item = (usize, &'static Field)> + use<> {
        self.fields.iter().scan(0, |at, field| {
            let here = *at;
            *at += usize::from(field.bits);
            Some((here, field))
        })
    }
}

/// Reads `bits` bits from bit `at` on; bits beyond the end are zero.
pub(crate) fn read(bytes: &[u8], at: usize, bits: u8) -> u128 {
    (at..at + usize::from(bits)).fold(0, |value, bit| {
        let byte = bytes.get(bit / 8).copied().unwrap_or(0);
        value << 1 | u128::from(byte >> (7 - bit % 8) & 1)
    })
}

/// Writes the low `bits` bits of `value` from bit `at` on; bits beyond the end are lost.
pub(crate) fn write(bytes: &mut [u8], at: usize, bits: u8, value: u128) {
    for n in 0..usize::from(bits) {
        let bit = at + n;
        let one = (value >> (usize::from(bits) - 1 - n) & 1) as u8;
        if let Some(byte) = bytes.get_mut(bit / 8) {
            let shift = 7 - bit % 8;
            *byte = *byte & !(1 << shift) | one << shift;
        }
    }
}

/// Keeps the low `bits` bits.
pub(crate) fn truncate(value: u128, bits: u8) -> u128 {
    if bits >= 128 { value } else { value & ((1 << bits) - 1) }
}

/// `const fn` shorthand for tables.
pub(crate) const fn f(name: &'static str, bits: u8) -> Field {
    Field { name, bits, signed: false }
}

/// As [`f`], signed.
pub(crate) const fn s(name: &'static str, bits: u8) -> Field {
    Field { name, bits, signed: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cross_byte_borders() {
        let mut bytes = [0xFF; 4];
        write(&mut bytes, 6, 12, 0x5A5);
        assert_eq!(read(&bytes, 6, 12), 0x5A5);
        assert_eq!(bytes, [0xFD, 0x69, 0x7F, 0xFF]);
        assert_eq!(read(&bytes, 28, 8), 0xF0, "what lies beyond the end reads as zero");
    }
}

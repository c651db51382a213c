//! SRv6 micro-SIDs (NEXT-CSID, F3216): containers, the shift a switch performs, and the algorithmic mapping from an EV to
//! an outer destination. Source: `paths.md` 9; RFC 9800.

use core::fmt;

use crate::Ev;

/// Micro-SIDs a container holds.
pub const USIDS: usize = 6;

/// The address of `block` followed by up to six micro-SIDs; further ones are left out.
#[must_use]
pub fn container(block: u32, usids: &[u16]) -> [u8; 16] {
    let mut value = u128::from(block) << 96;
    let mut shift = 96;
    for &usid in usids.iter().take(USIDS) {
        shift -= 16;
        value |= u128::from(usid) << shift;
    }
    value.to_be_bytes()
}

/// Micro-SID number `index` (0..6); 0 past the end.
#[must_use]
pub const fn usid(address: &[u8; 16], index: usize) -> u16 {
    if index >= USIDS {
        return 0;
    }
    (u128::from_be_bytes(*address) >> (80 - 16 * index)) as u16
}

/// What a switch that owns the first micro-SID makes of the destination: everything behind it moves up by one.
#[must_use]
pub const fn usid_shift(address: &[u8; 16]) -> [u8; 16] {
    //= SRV6-003
    let value = u128::from_be_bytes(*address);
    let block = value >> 96 << 96;
    (block | (value << 48 >> 48) << 16).to_be_bytes()
}

/// One field copied from the EV: `width` bits from bit `ev_lsb` up go to the address, `dst_msb_offset` bits from its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOp {
    /// Lowest EV bit of the field.
    pub ev_lsb: u8,
    /// Bits.
    pub width: u8,
    /// Distance of the field's most significant bit from that of the address.
    pub dst_msb_offset: u8,
}

/// Why a template was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// More than [`EvTemplate::MAX_OPS`] operations.
    TooMany,
    /// The operation with this number leaves the EV or the address, or copies nothing.
    Range(usize),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "more than {} copy operations", EvTemplate::MAX_OPS),
            Self::Range(op) => write!(f, "copy operation {op} leaves the 32-bit EV or the 128-bit address"),
        }
    }
}

impl core::error::Error for TemplateError {}

/// An outer destination with holes that the EV fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvTemplate {
    /// The base with the bits that operations write cleared.
    base: u128,
    /// EV mask before the shift, left shift of the masked value (negative = right).
    ops: [(u32, i8); Self::MAX_OPS],
    len: u8,
}

impl EvTemplate {
    /// Most operations of a template.
    pub const MAX_OPS: usize = 16;

    /// A template over `base`.
    ///
    /// # Errors
    /// Too many operations, or one outside EV or address.
    pub fn new(base: [u8; 16], ops: &[CopyOp]) -> Result<Self, TemplateError> {
        let mut template = Self { base: u128::from_be_bytes(base), ops: [(0, 0); Self::MAX_OPS], len: 0 };
        if ops.len() > Self::MAX_OPS {
            return Err(TemplateError::TooMany);
        }
        for (number, (op, slot)) in ops.iter().zip(&mut template.ops).enumerate() {
            let (lsb, width, offset) = (u32::from(op.ev_lsb), u32::from(op.width), u32::from(op.dst_msb_offset));
            if width == 0 || lsb + width > 32 || offset + width > 128 {
                return Err(TemplateError::Range(number));
            }
            let field = u32::MAX >> (32 - width);
            let dst_lsb = 128 - offset - width;
            template.base &= !(u128::from(field) << dst_lsb);
            *slot = (field << lsb, dst_lsb as i8 - lsb as i8);
            template.len += 1;
        }
        Ok(template)
    }

    /// The outer destination of a packet with this EV.
    #[inline]
    #[must_use]
    pub fn apply(&self, ev: Ev) -> [u8; 16] {
        //= SRV6-007
        let mut value = self.base;
        for &(mask, shift) in self.ops.iter().take(usize::from(self.len)) {
            let field = u128::from(ev.0 & mask);
            value |= if shift >= 0 { field << (shift as u32 & 127) } else { field >> (shift.unsigned_abs() & 31) };
        }
        value.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn addr(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    #[test]
    fn containers_and_their_parts() {
        let address = container(0xFC00_0001, &[0xE011, 0x6501, 0xE012, 0xD00B]);
        assert_eq!(address, addr("fc00:1:e011:6501:e012:d00b::"));
        assert_eq!((usid(&address, 1), usid(&address, 5), usid(&address, 6)), (0x6501, 0, 0));
    }

    #[test]
    fn impossible_operations_are_refused() {
        let op = |ev_lsb, width, dst_msb_offset| CopyOp { ev_lsb, width, dst_msb_offset };
        assert_eq!(EvTemplate::new([0; 16], &[op(0, 0, 0)]), Err(TemplateError::Range(0)));
        assert_eq!(EvTemplate::new([0; 16], &[op(0, 1, 0), op(25, 8, 0)]), Err(TemplateError::Range(1)));
        assert_eq!(EvTemplate::new([0; 16], &[op(0, 8, 121)]), Err(TemplateError::Range(0)));
        assert_eq!(EvTemplate::new([0; 16], &[op(0, 1, 0); 17]), Err(TemplateError::TooMany));
        let low = EvTemplate::new([0; 16], &[op(24, 8, 120)]).unwrap();
        assert_eq!(low.apply(Ev(0xAB00_0000))[15], 0xAB);
    }
}

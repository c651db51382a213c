//! Entropy values: expansion of fields into a bit string, and the 32 bits of it that travel. paths.md section 4.

use crate::{Ev, bytes::last};
use core::fmt;

/// One field of an EV profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvField {
    /// Bits of the field, 0 to 32.
    pub width: u8,
    /// Value of the bits that `mask` leaves alone.
    pub init_val: u32,
    /// Smallest value generated into the masked bits.
    pub min_val: u32,
    /// Largest value generated into the masked bits.
    pub max_val: u32,
    /// Bits taken from the EV.
    pub mask: u32,
}

impl EvField {
    /// A field that always shows `value`.
    #[must_use]
    pub const fn fixed(width: u8, value: u32) -> Self {
        //= EXP-003
        Self { width, init_val: value, min_val: 0, max_val: 0, mask: 0 }
    }
}

/// Why EV bits cannot be expanded. `field` counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EvError {
    /// The profile has more fields than the format.
    TooManyFields {
        /// Fields of the profile.
        given: usize,
        /// Fields of the format.
        allowed: usize,
    },
    /// A width is above 32, or wider than its place in the format.
    Width {
        /// The field at fault.
        field: u8,
    },
    /// `init_val` has bits outside the width.
    InitVal {
        /// The field at fault.
        field: u8,
    },
    /// `mask` has bits outside the width.
    Mask {
        /// The field at fault.
        field: u8,
    },
    /// `max_val` needs more bits than the mask has, or lies below `min_val`.
    Range {
        /// The field at fault.
        field: u8,
    },
    /// The format is wider than 256 bits; the sum of its widths.
    TooWide(u32),
    /// An EV bit that no field takes is set; its index from the top.
    UnusedBit(u16),
}

impl fmt::Display for EvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFields { given, allowed } => {
                write!(f, "EV profile has {given} fields but its format {allowed}: drop fields or widen the format")
            }
            Self::Width { field } => {
                write!(f, "EV field {field} is wider than 32 bits or than its place in the format: lower its width")
            }
            Self::InitVal { field } => {
                write!(f, "EV field {field} has an initial value beyond its width: clear the upper bits")
            }
            Self::Mask { field } => write!(f, "EV field {field} has mask bits beyond its width: clear them"),
            Self::Range { field } => {
                write!(f, "EV field {field} has a range its mask cannot hold: keep min <= max < 2^(bits in the mask)")
            }
            Self::TooWide(bits) => write!(f, "EV format has {bits} bits, 256 fit: drop or narrow fields"),
            Self::UnusedBit(bit) => {
                write!(f, "EV bit {bit} is set but no field takes it: clear it")
            }
        }
    }
}

impl core::error::Error for EvError {}

/// Checks field descriptions against the widths of a format.
///
/// # Errors
/// Any [`EvError`] but `UnusedBit`; the C API reports `TooWide` as E2BIG and the rest as EINVAL.
pub fn check(fields: &[EvField], fmt_widths: &[u8]) -> Result<(), EvError> {
    //= EXP-004
    if fields.len() > fmt_widths.len() {
        return Err(EvError::TooManyFields { given: fields.len(), allowed: fmt_widths.len() });
    }
    for (i, (f, fmt_width)) in fields.iter().zip(fmt_widths).enumerate() {
        let field = i.min(255) as u8;
        let outside = |v: u32| f.width < 32 && v.wrapping_shr(u32::from(f.width)) != 0;
        if f.width > 32 || f.width > *fmt_width {
            return Err(EvError::Width { field });
        }
        if outside(f.init_val) {
            return Err(EvError::InitVal { field });
        }
        if outside(f.mask) {
            return Err(EvError::Mask { field });
        }
        if f.max_val < f.min_val || u64::from(f.max_val) >> f.mask.count_ones() != 0 {
            return Err(EvError::Range { field });
        }
    }
    //= EXP-006
    let total = fmt_widths.iter().fold(0u32, |sum, w| sum.saturating_add(u32::from(*w)));
    if total > 256 { Err(EvError::TooWide(total)) } else { Ok(()) }
}

/// Spreads the bits of an EV over the masked bits of its fields.
///
/// Byte 0 of both strings is the most significant. Fields beyond the profile's expand to zeros.
///
/// # Errors
/// See [`EvError`].
pub fn expand(ev_bits: &[u8; 32], fields: &[EvField], fmt_widths: &[u8]) -> Result<[u8; 32], EvError> {
    expand_with(ev_bits, fields, fmt_widths, |_, _| ())
}

/// As [`expand`], and calls `each` with index and value of every field of the format.
///
/// # Errors
/// See [`EvError`].
pub fn expand_with(
    ev_bits: &[u8; 32],
    fields: &[EvField],
    fmt_widths: &[u8],
    mut each: impl FnMut(usize, u32),
) -> Result<[u8; 32], EvError> {
    check(fields, fmt_widths)?;
    let mut out = [0u8; 32];
    let (mut taken, mut written) = (0usize, 0usize);
    for (i, fmt_width) in fmt_widths.iter().enumerate() {
        //= EXP-002
        let value = match fields.get(i) {
            None => 0,
            Some(field) => field_value(ev_bits, field, &mut taken),
        };
        each(i, value);
        written = written.wrapping_add(usize::from(*fmt_width));
        for b in 0..u32::from(*fmt_width).min(32) {
            let at = written.wrapping_sub(1).wrapping_sub(b as usize);
            if let Some(byte) = out.get_mut(at / 8) {
                *byte |= ((value.wrapping_shr(b) & 1) as u8).wrapping_shl(place_in_byte(at));
            }
        }
    }
    //= EXP-005
    match (taken..256).find(|at| bit(ev_bits, *at) != 0) {
        Some(at) => Err(EvError::UnusedBit(at as u16)),
        None => Ok(out),
    }
}

/// The EV bits that [`expand`] spread into `expanded`, read back through the same descriptions: its inverse.
#[must_use]
pub fn collapse(expanded: &[u8; 32], fields: &[EvField], fmt_widths: &[u8]) -> [u8; 32] {
    let mut out = [0u8; 32];
    let (mut end, mut put) = (0usize, 0usize);
    for (i, fmt_width) in fmt_widths.iter().enumerate() {
        end = end.wrapping_add(usize::from(*fmt_width));
        let Some(field) = fields.get(i) else { continue };
        for b in (0..u32::from(field.width).min(32)).rev() {
            if field.mask & 1u32.wrapping_shl(b) != 0 {
                let taken = bit(expanded, end.wrapping_sub(1).wrapping_sub(b as usize)) as u8;
                if let Some(byte) = out.get_mut(put / 8) {
                    *byte |= taken.wrapping_shl(place_in_byte(put));
                }
                put = put.wrapping_add(1);
            }
        }
    }
    out
}

/// The value of one field; `taken` counts the EV bits used so far.
fn field_value(ev_bits: &[u8; 32], field: &EvField, taken: &mut usize) -> u32 {
    //= EXP-001, FMT-002
    let mut value = field.init_val;
    for b in (0..u32::from(field.width).min(32)).rev() {
        let place = 1u32.wrapping_shl(b);
        if field.mask & place != 0 {
            value = value & !place | bit(ev_bits, *taken).wrapping_shl(b);
            *taken = taken.wrapping_add(1);
        }
    }
    value
}

/// Bit `at` from the top, 0 past the end.
#[inline]
fn bit(string: &[u8; 32], at: usize) -> u32 {
    string.get(at / 8).map_or(0, |byte| u32::from(byte.wrapping_shr(place_in_byte(at)) & 1))
}

/// How far to the left bit `at` from the top stands in its byte.
#[inline]
const fn place_in_byte(at: usize) -> u32 {
    !at as u32 & 7
}

/// The wire EV of the structured format: the first four bytes of the expanded string.
#[inline]
#[must_use]
pub const fn stev(expanded: &[u8; 32]) -> Ev {
    //= EVW-005
    Ev(u32::from_be_bytes([expanded[0], expanded[1], expanded[2], expanded[3]]))
}

/// The wire EV of the UDP format: the first two bytes of the expanded string, in the low half.
#[inline]
#[must_use]
pub const fn udp(expanded: &[u8; 32]) -> Ev {
    //= EVW-001
    Ev::from_halves(0, u16::from_be_bytes([expanded[0], expanded[1]]))
}

/// The outer destination of an SRv6 profile: the first sixteen bytes of the expanded string.
#[inline]
#[must_use]
pub fn srv6_destination(expanded: &[u8; 32]) -> [u8; 16] {
    //= MAP-005
    expanded.first_chunk().copied().unwrap_or_default()
}

/// The SRH segment of an SRv6 profile: the last sixteen bytes of the expanded string.
#[inline]
#[must_use]
pub fn srh_segment(expanded: &[u8; 32]) -> [u8; 16] {
    last(expanded).copied().unwrap_or_default()
}

/// Flow label (IPv6 only) and UDP source port that carry `ev`.
#[inline]
#[must_use]
pub const fn place(ev: Ev, v6: bool, high_half_in_sport: bool) -> (u16, u16) {
    //= EVW-002
    let ev = if v6 && high_half_in_sport { ev } else { Ev(ev.0.rotate_left(16)) };
    (ev.low(), ev.high())
}

/// The EV that a flow label and a UDP source port carry: what SACKs and NACKs echo.
///
/// The top four bits of the label are ignored, over IPv4 all of it.
#[inline]
#[must_use]
pub const fn echo(flow_label: u32, sport: u16, v6: bool, high_half_in_sport: bool) -> Ev {
    //= EVW-003
    let label = if v6 { (flow_label & 0xFFFF) as u16 } else { 0 };
    if v6 && high_half_in_sport { Ev::from_halves(sport, label) } else { Ev::from_halves(label, sport) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(width: u8, init_val: u32, mask: u32) -> EvField {
        EvField { width, init_val, min_val: 0, max_val: 0, mask }
    }

    //= EXP-004, EXP-006 test
    #[test]
    fn faulty_descriptions_are_refused() {
        let one = |f: EvField| check(&[f], &[16]);
        assert_eq!(one(field(16, 0xFFFF, 0xFFFF)), Ok(()));
        assert_eq!(one(field(17, 0, 0)), Err(EvError::Width { field: 0 }));
        assert_eq!(check(&[field(33, 0, 0)], &[40]), Err(EvError::Width { field: 0 }));
        assert_eq!(one(field(8, 0x100, 0)), Err(EvError::InitVal { field: 0 }));
        assert_eq!(one(field(8, 0, 0x100)), Err(EvError::Mask { field: 0 }));
        assert_eq!(one(EvField { max_val: 4, ..field(8, 0, 0x11) }), Err(EvError::Range { field: 0 }));
        assert_eq!(one(EvField { max_val: 3, ..field(8, 0, 0x11) }), Ok(()));
        assert_eq!(one(EvField { min_val: 2, max_val: 1, ..field(8, 0, 0xFF) }), Err(EvError::Range { field: 0 }));
        assert_eq!(check(&[field(32, 0, u32::MAX)], &[32]), Ok(()));
        let two = [field(8, 0, 0); 2];
        assert_eq!(check(&two, &[8]), Err(EvError::TooManyFields { given: 2, allowed: 1 }));
        assert_eq!(check(&two, &[8, 7]), Err(EvError::Width { field: 1 }));
        assert_eq!(check(&[], &[255, 2]), Err(EvError::TooWide(257)));
    }

    //= EXP-002, EXP-003 test
    #[test]
    fn fixed_and_missing_fields_take_no_bits() {
        let mut values = vec![];
        let fields = [EvField::fixed(8, 0xAB)];
        let out = expand_with(&[0; 32], &fields, &[8, 4, 255 - 12], |_, v| values.push(v));
        assert_eq!(out.map(|o| o[0]), Ok(0xAB));
        assert_eq!(values, [0xAB, 0, 0]);
    }

    //= EXP-005 test
    #[test]
    fn bits_nobody_takes_must_be_zero() {
        let mut ev = [0; 32];
        ev[0] = 0xA4;
        assert!(expand(&ev, &[field(8, 0, 0xFC)], &[8]).is_ok());
        ev[0] |= 1;
        assert_eq!(expand(&ev, &[field(8, 0, 0xFC)], &[8]), Err(EvError::UnusedBit(7)));
        ev[0] |= 2;
        assert_eq!(expand(&ev, &[field(8, 0, 0xFC)], &[8]), Err(EvError::UnusedBit(6)), "the first one");
        ev[0] = 0;
        ev[31] = 1;
        assert_eq!(expand(&ev, &[], &[]), Err(EvError::UnusedBit(255)));
    }

    //= EVW-001, EVW-005 test
    #[test]
    fn formats_pick_their_bytes() {
        let mut x = [0; 32];
        for (byte, n) in x.iter_mut().zip(1..) {
            *byte = n;
        }
        assert_eq!(stev(&x), Ev(0x0102_0304));
        assert_eq!(udp(&x), Ev(0x0102));
        assert_eq!(srv6_destination(&x)[..], x[..16]);
        assert_eq!(srh_segment(&x)[..], x[16..]);
    }

    //= EVW-002, EVW-003 test
    #[test]
    fn the_echo_undoes_the_split() {
        for swapped in [false, true] {
            let (label, sport) = place(Ev(0x1234_5678), true, swapped);
            assert_eq!((label, sport), if swapped { (0x5678, 0x1234) } else { (0x1234, 0x5678) });
            assert_eq!(echo(0xF_0000 | u32::from(label), sport, true, swapped), Ev(0x1234_5678));
            assert_eq!(place(Ev(0x1234_5678), false, swapped).1, 0x5678, "IPv4 carries the low half");
            assert_eq!(echo(0x1234, 0x5678, false, swapped), Ev(0x5678));
        }
    }
}

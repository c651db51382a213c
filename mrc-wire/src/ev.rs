//! Entropy values: their expansion from profile fields, and where they sit in a packet. Source: `paths.md` 3 and 4,
//! `wire.md` 3.

use core::fmt;

use crate::Ev;

/// A field of an EV profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvField {
    /// Bits of the field, 0..=32.
    pub width: u8,
    /// Value of the bits that the EV does not give.
    pub init_val: u32,
    /// Lowest value of the EV-given part, for generation.
    pub min_val: u32,
    /// Highest value of the EV-given part, for generation.
    pub max_val: u32,
    /// Bits that the EV gives.
    pub mask: u32,
}

/// Why an expansion is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvError {
    /// More profile fields than format fields.
    TooManyFields,
    /// The profile field with this number is wider than 32 bits or than its format field, or its `init_val` or mask has
    /// bits outside its width.
    Field(usize),
    /// `max_val` of the field with this number needs more bits than its mask has, or lies below `min_val`.
    FieldRange(usize),
    /// The fields are wider than 256 bits together, or take more EV bits than there are.
    TooWide,
    /// The EV has bits set that no field takes.
    UnusedBits,
}

impl fmt::Display for EvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFields => f.write_str("the profile has more fields than its format"),
            Self::Field(n) => write!(f, "field {n}: width, init_val or mask does not fit its format field"),
            Self::FieldRange(n) => write!(f, "field {n}: min_val..=max_val does not fit its mask"),
            Self::TooWide => f.write_str("the fields are wider than 256 bits together"),
            Self::UnusedBits => f.write_str("the EV has bits set that no field takes: they must be zero"),
        }
    }
}

impl core::error::Error for EvError {}

fn bit(bytes: &[u8; 32], at: usize) -> bool {
    bytes.get(at >> 3).is_some_and(|byte| byte >> (7 - (at & 7)) & 1 != 0)
}

/// Expands the bit string `ev` (byte 0 first, most significant bit first) through the profile's fields into the format's.
///
/// # Errors
/// A field that does not fit, or bits of the EV that nobody takes.
///
/// # Source
/// `paths.md` 4.
pub fn expand(ev: &[u8; 32], fields: &[EvField], format_widths: &[u8]) -> Result<[u8; 32], EvError> {
    //= EVFMT-001
    if fields.len() > format_widths.len() {
        return Err(EvError::TooManyFields);
    }
    let mut out = [0u8; 32];
    let (mut taken, mut written) = (0usize, 0usize);
    for (number, &format_width) in format_widths.iter().enumerate() {
        let mut value = 0u32;
        if let Some(field) = fields.get(number) {
            check(field, format_width).map_err(|range| if range { EvError::FieldRange(number) } else { EvError::Field(number) })?;
            value = field.init_val;
            for position in (0..u32::from(field.width)).rev() {
                if field.mask >> position & 1 != 0 {
                    value = value & !(1 << position) | u32::from(bit(ev, taken)) << position;
                    taken += 1;
                }
            }
        }
        for position in (0..u32::from(format_width)).rev() {
            let set = position < 32 && value >> (position & 31) & 1 != 0;
            let byte = out.get_mut(written >> 3).ok_or(EvError::TooWide)?;
            *byte |= u8::from(set) << (7 - (written & 7));
            written += 1;
        }
    }
    if taken > 256 {
        return Err(EvError::TooWide);
    }
    if (taken..256).any(|at| bit(ev, at)) {
        return Err(EvError::UnusedBits);
    }
    Ok(out)
}

fn check(field: &EvField, format_width: u8) -> Result<(), bool> {
    let outside = |value: u32| field.width < 32 && value >> field.width != 0;
    if field.width > 32 || field.width > format_width || outside(field.init_val) || outside(field.mask) {
        return Err(false);
    }
    let bits = field.mask.count_ones();
    let too_big = bits < 32 && field.max_val >> bits != 0;
    if too_big || field.min_val > field.max_val { Err(true) } else { Ok(()) }
}

/// The wire EV of an expanded structured EV: its first four bytes.
#[must_use]
pub const fn stev(expanded: &[u8; 32]) -> Ev {
    Ev(u32::from_be_bytes([expanded[0], expanded[1], expanded[2], expanded[3]]))
}

/// The wire EV of an expanded 16-bit (UDP) EV: its first two bytes.
#[must_use]
pub const fn udp(expanded: &[u8; 32]) -> Ev {
    Ev(u16::from_be_bytes([expanded[0], expanded[1]]) as u32)
}

/// Flow label (IPv6 only) and UDP source port that carry `ev`.
#[inline]
#[must_use]
pub const fn place(ev: Ev, v6: bool, high_half_in_sport: bool) -> (u16, u16) {
    //= EVWIRE-001
    if v6 && high_half_in_sport { (ev.low(), ev.high()) } else { (ev.high(), ev.low()) }
}

/// The EV that a flow label (0 over IPv4) and a UDP source port carry: what SACKs and NACKs echo.
#[inline]
#[must_use]
pub const fn echo(flow_label: u32, sport: u16, v6: bool, high_half_in_sport: bool) -> Ev {
    let label = flow_label as u16;
    if v6 && high_half_in_sport { Ev::from_halves(sport, label) } else { Ev::from_halves(if v6 { label } else { 0 }, sport) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placing_and_echoing_are_inverse() {
        let ev = Ev(0x1234_5678);
        for swapped in [false, true] {
            let (label, sport) = place(ev, true, swapped);
            assert_eq!(echo(label.into(), sport, true, swapped), ev);
        }
        assert_eq!(place(ev, true, false), (0x1234, 0x5678));
        assert_eq!(echo(0x1234, 0x5678, false, false), Ev(0x5678));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let field = EvField { width: 8, init_val: 0, min_val: 0, max_val: 255, mask: 0xFF };
        let ev = [0u8; 32];
        let refused = |fields: &[EvField], widths: &[u8]| expand(&ev, fields, widths).unwrap_err();
        assert_eq!(refused(&[field, field], &[8]), EvError::TooManyFields);
        assert_eq!(refused(&[field], &[7]), EvError::Field(0));
        assert_eq!(refused(&[EvField { init_val: 256, ..field }], &[16]), EvError::Field(0));
        assert_eq!(refused(&[EvField { mask: 0x1FF, ..field }], &[16]), EvError::Field(0));
        assert_eq!(refused(&[EvField { max_val: 256, ..field }], &[16]), EvError::FieldRange(0));
        assert_eq!(refused(&[], &[200, 57]), EvError::TooWide);
        let mut spare = [0u8; 32];
        spare[1] = 1;
        assert_eq!(expand(&spare, &[field], &[8]), Err(EvError::UnusedBits));
    }
}

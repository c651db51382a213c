//! EV formats and field descriptions: how the value of an EV becomes what a packet carries, and the GENERATED mode, which
//! makes values from the descriptions alone. Pure functions; owns no profile. Source: `paths.md` 2.1, 3, 4 and 9.4.

use mrc_wire::{
    Ev, PortNum,
    ev::{self, EvError, EvField},
};

use super::profile::{EvEntry, Permutation, Ports, ProfileError};
use crate::port::PortMask;

/// Most fields of a format: a locator block and fourteen micro-SIDs in two containers.
pub const MAX_FIELDS: usize = 16;

/// What an expanded EV is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FormatMode {
    /// Up to 16 bits: the UDP source port.
    Udp,
    /// Up to 32 bits, a field per tier: source port and flow label.
    Stev,
    /// Up to 128 bits: the outer IPv6 destination; up to 256: an SRH segment behind it.
    Srv6,
}

impl FormatMode {
    /// Bits that fit.
    //= FMT-001, GENEV-001
    pub const fn max_bits(self) -> u16 {
        match self {
            Self::Udp => 16,
            Self::Stev => 32,
            Self::Srv6 => 256,
        }
    }
}

/// A format: mode and field widths, first field most significant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvFormat {
    mode: FormatMode,
    widths: [u8; MAX_FIELDS],
    len: u8,
}

/// Bits of fields that are together at most 255 times [`MAX_FIELDS`] wide.
fn bits_of(widths: &[u8]) -> u16 {
    widths.iter().fold(0, |bits, &width| u16::from(width).wrapping_add(bits))
}

impl EvFormat {
    /// The UDP format with one field of 16 bits.
    pub const UDP: Self = {
        let mut widths = [0; MAX_FIELDS];
        widths[0] = 16;
        Self { mode: FormatMode::Udp, widths, len: 1 }
    };

    /// A format of these field widths, in bits.
    ///
    /// # Errors
    /// [`ProfileError::TooWide`] when the fields do not fit the mode; [`ProfileError::Field`] for no field, more than
    /// [`MAX_FIELDS`], or one wider than 32 bits.
    //= EXP-006, GENEV-001
    pub fn new(mode: FormatMode, widths: &[u8]) -> Result<Self, ProfileError> {
        if widths.is_empty() || widths.len() > MAX_FIELDS {
            return Err(ProfileError::Field(EvError::TooManyFields { given: widths.len(), allowed: MAX_FIELDS }));
        }
        if let Some(field) = widths.iter().position(|&width| width > 32) {
            return Err(ProfileError::Field(EvError::Width { field: field as u8 }));
        }
        let bits = bits_of(widths);
        if bits > mode.max_bits() {
            return Err(ProfileError::TooWide { bits, max: mode.max_bits() });
        }
        let mut format = Self { mode, widths: [0; MAX_FIELDS], len: widths.len() as u8 };
        for (to, from) in format.widths.iter_mut().zip(widths) {
            *to = *from;
        }
        Ok(format)
    }

    /// The mode.
    pub const fn mode(&self) -> FormatMode {
        self.mode
    }

    /// The widths of its fields.
    pub fn widths(&self) -> &[u8] {
        self.widths.get(..usize::from(self.len)).unwrap_or(&self.widths)
    }

    /// Whether an EV of this format has an SRH segment.
    pub fn has_segment(&self) -> bool {
        bits_of(self.widths()) > 128
    }

    /// Expands the EV bits `value` into entry number `index` of a profile, on `port`. Byte 0 is the most significant.
    ///
    /// # Errors
    /// [`ProfileError::Field`]: descriptions that do not fit the format, or bits that no field takes.
    //= MAP-005, MAP-006
    pub fn entry(
        &self,
        fields: &EvFields,
        value: &[u8; 32],
        index: u16,
        port: PortNum,
    ) -> Result<EvEntry, ProfileError> {
        let expanded = ev::expand(value, fields.as_slice(), self.widths()).map_err(ProfileError::Field)?;
        Ok(match self.mode {
            FormatMode::Udp => EvEntry::new(ev::udp(&expanded), port),
            FormatMode::Stev => EvEntry::new(ev::stev(&expanded), port),
            FormatMode::Srv6 => EvEntry {
                dst: Some(ev::srv6_destination(&expanded)),
                segment: self.has_segment().then(|| ev::srh_segment(&expanded)),
                ..EvEntry::new(Ev(index.into()), port)
            },
        })
    }

    /// The EV bits that [`EvFormat::entry`] expanded into `entry`; all zero for an entry without a value.
    pub fn value(&self, fields: &EvFields, entry: &EvEntry) -> [u8; 32] {
        let mut expanded = [0u8; 32];
        if !entry.populated {
            return expanded;
        }
        match (self.mode, entry.dst) {
            (FormatMode::Udp, _) => put(&mut expanded, 0, &entry.ev.low().to_be_bytes()),
            (FormatMode::Stev, _) => put(&mut expanded, 0, &entry.ev.0.to_be_bytes()),
            (FormatMode::Srv6, dst) => {
                put(&mut expanded, 0, &dst.unwrap_or_default());
                put(&mut expanded, 16, &entry.segment.unwrap_or_default());
            }
        }
        ev::collapse(&expanded, fields.as_slice(), self.widths())
    }
}

fn put(to: &mut [u8; 32], at: usize, from: &[u8]) {
    for (to, from) in to.iter_mut().skip(at).zip(from) {
        *to = *from;
    }
}

/// The field descriptions of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvFields {
    fields: [EvField; MAX_FIELDS],
    len: u8,
}

impl EvFields {
    /// No field.
    pub const NONE: Self =
        Self { fields: [EvField { width: 0, init_val: 0, min_val: 0, max_val: 0, mask: 0 }; MAX_FIELDS], len: 0 };

    /// These descriptions, which fit `format`.
    ///
    /// # Errors
    /// [`ProfileError::Field`].
    //= EXP-004
    pub fn new(format: &EvFormat, fields: &[EvField]) -> Result<Self, ProfileError> {
        ev::check(fields, format.widths()).map_err(ProfileError::Field)?;
        let mut all = Self { len: fields.len().min(MAX_FIELDS) as u8, ..Self::NONE };
        for (to, from) in all.fields.iter_mut().zip(fields) {
            *to = *from;
        }
        Ok(all)
    }

    /// Every bit of every field of `format` is taken from the EV: what an EXPLICIT profile without descriptions means.
    pub fn full(format: &EvFormat) -> Self {
        let mut all = Self { len: format.len, ..Self::NONE };
        for (field, &width) in all.fields.iter_mut().zip(format.widths()) {
            let mask = if width >= 32 { u32::MAX } else { 1u32.wrapping_shl(width.into()).wrapping_sub(1) };
            *field = EvField { width, init_val: 0, min_val: 0, max_val: mask, mask };
        }
        all
    }

    /// The descriptions.
    pub fn as_slice(&self) -> &[EvField] {
        self.fields.get(..usize::from(self.len)).unwrap_or(&self.fields)
    }

    /// Different values the descriptions allow, at most 2^62.
    fn combinations(&self) -> u64 {
        let ranges = self.as_slice().iter().filter(|field| field.mask != 0).map(range);
        ranges.fold(1u64, |product, range| product.saturating_mul(range.get())).min(1 << 62)
    }

    /// The EV bits of combination `x`, below [`EvFields::combinations`]: mixed radix, first field most significant. Beyond
    /// 2^62 combinations the first fields stay at their least value.
    fn combination(&self, mut x: u64) -> [u8; 32] {
        let mut values = [0u32; MAX_FIELDS];
        for (field, value) in self.as_slice().iter().zip(&mut values).rev() {
            if field.mask != 0 {
                let range = range(field);
                *value = field.min_val.wrapping_add((x % range) as u32);
                x /= range;
            }
        }
        let (mut bits, mut at) = ([0u8; 32], 0usize);
        for (field, value) in self.as_slice().iter().zip(values) {
            for bit in (0..field.mask.count_ones()).rev() {
                if let Some(byte) = bits.get_mut(at / 8) {
                    *byte |= ((value.wrapping_shr(bit) & 1) as u8).wrapping_shl(!at as u32 & 7);
                }
                at = at.wrapping_add(1);
            }
        }
        bits
    }
}

fn range(field: &EvField) -> core::num::NonZeroU64 {
    let range = u64::from(field.max_val).saturating_sub(field.min_val.into()).saturating_add(1);
    core::num::NonZeroU64::new(range).unwrap_or(core::num::NonZeroU64::MIN)
}

/// Fills a GENERATED profile: different values of the descriptions in an order keyed by `profile_id`, `ports` in turn, so
/// that every plane has as many.
///
/// # Errors
/// [`ProfileError::TooFew`] when the descriptions allow fewer values than there are entries, [`ProfileError::Planes`]
/// without a port, [`ProfileError::Field`]. Entries may then be filled in part.
//= PROF-004, GENEV-002, GENEV-003
pub fn generate_profile(
    entries: &mut [EvEntry],
    format: &EvFormat,
    fields: &EvFields,
    ports: PortMask,
    profile_id: u64,
) -> Result<(), ProfileError> {
    let ports = Ports::of_mask(ports)?;
    let permutation = Permutation::new(fields.combinations(), profile_id);
    permutation.check_room(entries)?;
    for (i, entry) in (0u64..).zip(entries) {
        *entry = format.entry(fields, &fields.combination(permutation.at(i)), i as u16, ports.of(i))?;
    }
    Ok(())
}

crate::image::stored!(enum FormatMode { 0 => Udp, 1 => Stev, 2 => Srv6 });
crate::image::stored!(struct EvFormat { mode, widths, len } where |format| usize::from(format.len) <= MAX_FIELDS);
crate::image::stored!(struct EvFields { fields, len } where |fields| usize::from(fields.len) <= MAX_FIELDS);

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{collections::BTreeSet, vec, vec::Vec};

    use super::*;

    fn field(width: u8, init_val: u32, mask: u32) -> EvField {
        EvField { width, init_val, min_val: 0, max_val: (1u32 << mask.count_ones()) - 1, mask }
    }

    //= FMT-001, GENEV-001, EXP-006 test
    #[test]
    fn formats_know_their_limits() {
        for (mode, fits, too_wide) in [
            (FormatMode::Udp, &[16][..], &[16, 1][..]),
            (FormatMode::Stev, &[10, 8, 14], &[10, 8, 15]),
            (FormatMode::Srv6, &[32; 8], &[32, 32, 32, 32, 32, 32, 32, 32, 1]),
        ] {
            assert!(EvFormat::new(mode, fits).is_ok(), "{mode:?}");
            let bits = too_wide.iter().map(|&w: &u8| u16::from(w)).sum();
            let refused = ProfileError::TooWide { bits, max: mode.max_bits() };
            assert_eq!(EvFormat::new(mode, too_wide), Err(refused));
        }
        assert!(EvFormat::new(FormatMode::Udp, &[]).is_err());
        assert!(EvFormat::new(FormatMode::Srv6, &[33]).is_err());
        assert!(EvFormat::new(FormatMode::Srv6, &[1; 17]).is_err());
        assert!(!EvFormat::new(FormatMode::Srv6, &[32; 4]).unwrap().has_segment());
        assert!(EvFormat::new(FormatMode::Srv6, &[32, 32, 32, 32, 16]).unwrap().has_segment());
    }

    /// The vectors of the reference: widths, (width, initial value, mask) of each field, EV, expanded.
    #[expect(clippy::type_complexity, reason = "a table")]
    const VECTORS: &[(FormatMode, &[u8], &[(u8, u32, u32)], &[u8], &[u8])] = &[
        (
            FormatMode::Stev,
            &[16, 16],
            &[(16, 0, 0xFFFF), (16, 0, 0xFFFF)],
            &[0xF3, 0xB0, 0x42, 0x56],
            &[0xF3, 0xB0, 0x42, 0x56],
        ),
        (FormatMode::Stev, &[8, 4, 4], &[(8, 0, 255), (4, 0, 15), (4, 0, 15)], &[0xB3, 0x5A], &[0xB3, 0x5A, 0, 0]),
        (
            FormatMode::Stev,
            &[10, 8, 4],
            &[(10, 0, 1023), (8, 0, 255), (4, 0, 15)],
            &[0xD5, 0xA3, 0xC0],
            &[0xD5, 0xA3, 0xC0, 0],
        ),
        (FormatMode::Stev, &[16, 16], &[(16, 256, 15), (16, 512, 15)], &[0xA4], &[0x01, 0x0A, 0x02, 0x04]),
        (FormatMode::Stev, &[16, 16], &[(16, 4096, 3855), (16, 8192, 3855)], &[0xC3, 0x5A], &[0x1C, 0x03, 0x25, 0x0A]),
        (
            FormatMode::Srv6,
            &[32, 16, 16, 16, 16],
            &[(32, 0xFC00_0001, 0), (4, 0, 15), (4, 0, 15), (4, 0, 15), (4, 0, 15)],
            &[0x12, 0x34],
            &[0xFC, 0, 0, 1, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0],
        ),
        (
            FormatMode::Srv6,
            &[32, 16, 16, 16, 16],
            &[(32, 0xFC00_0001, 0), (16, 0, 0xFFFF), (16, 0, 0xFFFF)],
            &[0x60, 0x11, 0x60, 0x12],
            &[0xFC, 0, 0, 1, 0x60, 0x11, 0x60, 0x12, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            FormatMode::Srv6,
            &[32, 16, 16],
            &[(32, 0xFC00_0001, 0), (16, 57360, 3840), (16, 25856, 240)],
            &[0x5A],
            &[0xFC, 0, 0, 1, 0xE5, 0x10, 0x65, 0xA0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];

    //= EXP-001, EXP-002, EXP-003, FMT-002, MAP-005, MAP-006 test
    #[test]
    fn entries_carry_the_expanded_bits_and_give_the_value_back() {
        let port = PortNum::from_plane(2);
        for (n, &(mode, widths, fields, ev, expanded)) in VECTORS.iter().enumerate() {
            let format = EvFormat::new(mode, widths).unwrap();
            let fields: Vec<_> = fields.iter().map(|&(w, i, m)| EvField { max_val: 0, ..field(w, i, m) }).collect();
            let fields = EvFields::new(&format, &fields).unwrap();
            let mut value = [0; 32];
            value[..ev.len()].copy_from_slice(ev);
            let entry = format.entry(&fields, &value, 3_077, port).unwrap();
            assert_eq!((entry.port, entry.populated, entry.segment), (port, true, None));
            if mode == FormatMode::Srv6 {
                // The handle is the index; the expanded bits are the destination as they stand.
                assert_eq!((entry.ev, &entry.dst.unwrap()[..]), (Ev(3_077), expanded), "vector {n}");
            } else {
                assert_eq!((entry.ev.0.to_be_bytes(), entry.dst), (expanded.try_into().unwrap(), None), "vector {n}");
            }
            assert_eq!(format.value(&fields, &entry), value, "vector {n}");
        }
        let udp = EvFormat::UDP.entry(&EvFields::full(&EvFormat::UDP), &[0xAB; 32], 0, port);
        assert_eq!(udp, Err(ProfileError::Field(EvError::UnusedBit(16))));
        let mut value = [0; 32];
        value[..2].copy_from_slice(&[0xAB, 0xCD]);
        let udp = EvFormat::UDP.entry(&EvFields::full(&EvFormat::UDP), &value, 0, port).unwrap();
        assert_eq!(udp.ev, Ev(0xABCD));
        assert_eq!(EvFormat::UDP.value(&EvFields::full(&EvFormat::UDP), &udp), value);
    }

    //= MAP-005 test
    #[test]
    fn a_long_path_spills_into_a_segment() {
        let format = EvFormat::new(FormatMode::Srv6, &[32; 8]).unwrap();
        let value = core::array::from_fn(|n| n as u8 + 1);
        let entry = format.entry(&EvFields::full(&format), &value, 3, PortNum::from_plane(0)).unwrap();
        assert_eq!(entry.dst.unwrap(), core::array::from_fn(|n| n as u8 + 1));
        assert_eq!(entry.segment.unwrap(), core::array::from_fn(|n| n as u8 + 17));
        assert_eq!(format.value(&EvFields::full(&format), &entry), value);
    }

    //= PROF-004, GENEV-002, GENEV-003 test
    #[test]
    fn generated_values_are_distinct_in_range_and_balanced() {
        let format = EvFormat::new(FormatMode::Stev, &[16, 16]).unwrap();
        // 6 x 10 = 60 combinations in a split mask.
        let tier = |init_val, min_val, max_val| EvField { width: 16, init_val, min_val, max_val, mask: 0x0F0F };
        let fields = EvFields::new(&format, &[tier(0x1000, 3, 8), tier(0x2000, 0x10, 0x19)]).unwrap();
        assert_eq!(fields.combinations(), 60);
        let mut entries = vec![EvEntry::EMPTY; 60];
        let ports =
            PortMask::NONE.with(PortNum::from_plane(1)).with(PortNum::from_plane(4)).with(PortNum::from_plane(6));
        generate_profile(&mut entries, &format, &fields, ports, 5).unwrap();
        let values: BTreeSet<Ev> = entries.iter().map(|entry| entry.ev).collect();
        assert_eq!(values.len(), 60, "all combinations, each once");
        for entry in &entries {
            let (first, second) = (entry.ev.high(), entry.ev.low());
            let digit = |v: u16| v >> 4 & 0xF0 | v & 0x0F;
            assert!((3..=8).contains(&digit(first)) && first & 0xF0F0 == 0x1000, "{entry:?}");
            assert!((0x10..=0x19).contains(&digit(second)) && second & 0xF0F0 == 0x2000, "{entry:?}");
        }
        for port in [2, 5, 7] {
            assert_eq!(entries.iter().filter(|entry| entry.port.value() == port).count(), 20);
        }
        let mut other = vec![EvEntry::EMPTY; 60];
        generate_profile(&mut other, &format, &fields, ports, 6).unwrap();
        assert_ne!(entries, other, "the order is keyed");
        let mut more = vec![EvEntry::EMPTY; 61];
        let few = ProfileError::TooFew { have: 60, need: 61 };
        assert_eq!(generate_profile(&mut more, &format, &fields, ports, 5), Err(few));
        let none = generate_profile(&mut entries, &format, &fields, PortMask::NONE, 5);
        assert_eq!(none, Err(ProfileError::Planes { planes: 0 }));
    }

    #[test]
    fn a_huge_space_of_values_is_drawn_from_all_the_same() {
        let format = EvFormat::new(FormatMode::Srv6, &[32; 8]).unwrap();
        let fields = EvFields::full(&format);
        let mut entries = vec![EvEntry::EMPTY; 4096];
        generate_profile(&mut entries, &format, &fields, PortMask::first(8), 1).unwrap();
        let values: BTreeSet<_> = entries.iter().map(|entry| (entry.dst, entry.segment)).collect();
        assert_eq!(values.len(), 4096);
    }
}

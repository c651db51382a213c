//! Sets of ports. A port is 1-based and attaches to exactly one plane.

use mrc_wire::PortNum;

/// A set of ports, bit N for port N; bit 0 is never set. The same numbering as `port_status_mask` on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortMask(u32);

impl PortMask {
    /// No port.
    pub const NONE: Self = Self(0);
    /// Every port a mask can name.
    pub const ALL: Self = Self(!1);

    /// The set with the bits of `raw`; bit 0 is ignored.
    pub const fn from_bits(raw: u32) -> Self {
        Self(raw & !1)
    }

    /// Bit N set for port N.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Ports `1..=count`.
    pub const fn first(count: u8) -> Self {
        if count >= 31 { Self::ALL } else { Self(!(u32::MAX << 1).wrapping_shl(count as u32) & !1) }
    }

    /// Whether `port` is in the set; ports above 31 never are.
    pub const fn contains(self, port: PortNum) -> bool {
        port.value() < 32 && self.0.wrapping_shr(port.value() as u32) & 1 != 0
    }

    /// The set with `port` added.
    #[must_use]
    pub const fn with(self, port: PortNum) -> Self {
        if port.value() < 32 { Self(self.0 | 1u32.wrapping_shl(port.value() as u32)) } else { self }
    }

    /// The set with `port` removed.
    #[must_use]
    pub const fn without(self, port: PortNum) -> Self {
        if port.value() < 32 { Self(self.0 & !1u32.wrapping_shl(port.value() as u32)) } else { self }
    }

    /// The ports in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The ports of `self` that are not in `other`.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The port with the lowest number.
    pub const fn lowest(self) -> Option<PortNum> {
        match (self.0 >> 1).trailing_zeros() {
            32 => None,
            plane => Some(PortNum::from_plane(plane as u8)),
        }
    }

    /// The planes of the ports in the set, in order.
    pub(crate) fn planes(self) -> impl Iterator<Item = usize> {
        let mut left = self.0 >> 1;
        core::iter::from_fn(move || {
            let plane = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (plane < 32).then_some(plane as usize)
        })
    }

    /// Number of ports in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_ports_up_to_31_only() {
        for number in 1..=255 {
            let port = PortNum::new(number).unwrap();
            let (one, all) = (PortMask::NONE.with(port), PortMask::from_bits(u32::MAX));
            let exists = number < 32;
            assert_eq!((one.contains(port), one.is_empty(), all.contains(port)), (exists, !exists, exists), "{number}");
            assert_eq!(all.without(port) == all, !exists, "{number}");
        }
    }
}

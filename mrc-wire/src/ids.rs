//! Numbers with rules of their own: QP numbers, keys, entropy values, message numbers, ports.

use core::fmt;
use core::num::NonZeroU8;

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qpn(u32);

impl Qpn {
    /// The destination of endpoint requests and responses.
    //= BTH-007
    pub const ENDPOINT: Self = Self(2);

    /// Keeps the low 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00FF_FFFF)
    }

    /// The number, below 2^24.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The low half, as `spdcid` and `dpdcid` carry it.
    #[inline]
    #[must_use]
    pub const fn low16(self) -> u16 {
        (self.0 & 0xFFFF) as u16
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

/// The key by which a peer names one of our memory regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rkey(pub u32);

impl fmt::Display for Rkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// An entropy value as it stands on the wire: 32 bits, of which IPv4 carries the low half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ev(pub u32);

impl Ev {
    /// Bits 15:0.
    #[inline]
    #[must_use]
    pub const fn low(self) -> u16 {
        (self.0 & 0xFFFF) as u16
    }

    /// Bits 31:16.
    #[inline]
    #[must_use]
    pub const fn high(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Puts two halves together.
    #[inline]
    #[must_use]
    pub const fn from_halves(high: u16, low: u16) -> Self {
        Self((high as u32) << 16 | low as u32)
    }
}

impl fmt::Display for Ev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// A message number of METH: index of a message (or WriteIMM) on its QP, wrapping at 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Msn(pub u16);

impl Msn {
    /// The number after this one.
    #[inline]
    #[must_use]
    //= METH-001
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Msn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A physical port of a function, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNum(NonZeroU8);

impl PortNum {
    /// `None` for 0, which is no port.
    #[inline]
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        match NonZeroU8::new(number) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// The number, 1 or more.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0.get()
    }

    /// The plane the port belongs to, counted from 0.
    #[inline]
    #[must_use]
    pub const fn plane(self) -> u8 {
        self.0.get().wrapping_sub(1)
    }

    /// The port on `plane`, counted from 0; plane 255 has none and yields port 255.
    #[inline]
    #[must_use]
    pub const fn from_plane(plane: u8) -> Self {
        Self(NonZeroU8::MIN.saturating_add(plane))
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_widths() {
        assert_eq!(Qpn::new(0xFF01_B0B2).value(), 0x01_B0B2);
        assert_eq!(Qpn::new(0x01_B0B2).low16(), 0xB0B2);
        assert_eq!((Ev(0x1234_5678).high(), Ev(0x1234_5678).low()), (0x1234, 0x5678));
        assert_eq!(Ev::from_halves(0x1234, 0x5678), Ev(0x1234_5678));
    }

    //= METH-001 test
    #[test]
    fn message_numbers_wrap() {
        assert_eq!(Msn(0xFFFF).next(), Msn(0));
    }

    #[test]
    fn ports_count_from_one() {
        assert_eq!(PortNum::new(0), None);
        assert_eq!(PortNum::new(1).map(PortNum::plane), Some(0));
        assert_eq!(PortNum::from_plane(3).value(), 4);
        assert_eq!(PortNum::from_plane(255).value(), 255);
    }
}

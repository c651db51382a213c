//! Message numbers (METH) and timestamps (TSETH), 4 bytes each, wire.md sections 5 and 15.

use crate::Msn;

/// Message extended transport header: which message, and which WriteIMM, a packet belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethRepr {
    /// Index of this WriteIMM on the QP; 0 and unread in plain writes.
    pub rqmsn: Msn,
    /// Index of this message on the QP.
    pub msn: Msn,
}

impl MethRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the header.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self { rqmsn: Msn(u16::from_be_bytes([b[0], b[1]])), msn: Msn(u16::from_be_bytes([b[2], b[3]])) }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [r0, r1] = self.rqmsn.0.to_be_bytes();
        let [m0, m1] = self.msn.0.to_be_bytes();
        *out = [r0, r1, m0, m1];
    }
}

/// Timestamp extended transport header, and the same group inside probes and endpoint requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TsethRepr {
    /// Send time, 16 bits; unit 128 ns when `tsr` is clear.
    pub timestamp: u16,
    /// The unit is private to the sender.
    pub tsr: bool,
    /// Format type, 4 bits; 1 is a timestamp, others count as none.
    pub ftype: u8,
}

impl TsethRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 4;
    /// `ftype` of a timestamp.
    pub const FTYPE_TIMESTAMP: u8 = 1;
    /// Nanoseconds per tick when `tsr` is clear.
    pub const UNIT_NS: u32 = 1 << Self::UNIT_SHIFT;
    const UNIT_SHIFT: u32 = 7;

    /// A timestamp in units of 128 ns.
    #[inline]
    #[must_use]
    pub const fn ns128(timestamp: u16) -> Self {
        //= TSETH-001
        //= TS-001
        Self { timestamp, tsr: false, ftype: Self::FTYPE_TIMESTAMP }
    }

    /// The timestamp of a clock that shows `now_ns`; wraps every 8.388608 ms.
    #[inline]
    #[must_use]
    pub const fn ticks(now_ns: u64) -> u16 {
        //= TS-001
        (now_ns.wrapping_shr(Self::UNIT_SHIFT) & 0xFFFF) as u16
    }

    /// Nanoseconds from `reflected` to `now`, right while the true time is below 8.388 ms.
    #[inline]
    #[must_use]
    pub const fn elapsed_ns(now: u16, reflected: u16) -> u32 {
        //= TS-002
        (now.wrapping_sub(reflected) as u32).wrapping_mul(Self::UNIT_NS)
    }

    /// Whether the group holds a timestamp at all.
    #[inline]
    #[must_use]
    pub const fn is_timestamp(&self) -> bool {
        //= TSETH-002
        self.ftype == Self::FTYPE_TIMESTAMP
    }

    /// What a responder reflects: the timestamp, or 0 when this is none.
    #[inline]
    #[must_use]
    pub const fn reflected(&self) -> u16 {
        if self.is_timestamp() { self.timestamp } else { 0 }
    }

    /// Reads the header; reserved bits are ignored.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self { timestamp: u16::from_be_bytes([b[0], b[1]]), tsr: b[2] & 0x80 != 0, ftype: b[3] & 0x0F }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [t0, t1] = self.timestamp.to_be_bytes();
        *out = [t0, t1, if self.tsr { 0x80 } else { 0 }, self.ftype & 0x0F];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meth_has_the_receive_queue_number_first() {
        let mut out = [0; 4];
        MethRepr { rqmsn: Msn(3), msn: Msn(9) }.emit(&mut out);
        assert_eq!(out, [0, 3, 0, 9]);
    }

    //= TSETH-001 test
    //= TSETH-002 test
    #[test]
    fn tseth_ignores_its_reserved_bits() {
        let t = TsethRepr::parse(&[0x12, 0x34, 0x7F, 0xF1]);
        assert_eq!(t, TsethRepr::ns128(0x1234));
        assert_eq!(t.reflected(), 0x1234);
        let other = TsethRepr::parse(&[0x12, 0x34, 0x80, 2]);
        assert!(other.tsr && !other.is_timestamp());
        assert_eq!(other.reflected(), 0);
        let mut out = [0xFF; 4];
        t.emit(&mut out);
        assert_eq!(out, [0x12, 0x34, 0, 1]);
    }

    //= TS-001 test
    //= TS-002 test
    #[test]
    fn ticks_wrap_and_differences_survive_it() {
        assert_eq!(TsethRepr::ticks(127), 0);
        assert_eq!(TsethRepr::ticks(8_388_608), 0);
        assert_eq!(TsethRepr::elapsed_ns(TsethRepr::ticks(8_388_608 + 1280), TsethRepr::ticks(8_388_608 - 128)), 1408);
    }
}

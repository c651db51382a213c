//! Refusal of one packet: NETH, 20 bytes, and its reasons, wire.md section 7.

use crate::{Ev, Psn};
use core::fmt;

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// 0x01: a switch cut its payload; the path is to blame.
    Trimmed,
    /// 0x02: cut by the destination's leaf; the path is not to blame.
    TrimmedLastHop,
    /// 0x06: no room to track it.
    NoBitmap,
    /// 0x07: no room to hold it.
    NoPktBuffer,
    /// 0x0A: another resource ran out.
    NoResource,
    /// 0x0B: outside the PSN window.
    PsnOorWindow,
    /// 0x19: the responder failed; the only reason that ends the QP.
    UnexpEvent,
    /// Any other byte: recoverable, blames no path.
    Unknown(u8),
}

impl NackReason {
    /// The reason a byte stands for.
    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Self {
        //= NETH-002
        match byte {
            0x01 => Self::Trimmed,
            0x02 => Self::TrimmedLastHop,
            0x06 => Self::NoBitmap,
            0x07 => Self::NoPktBuffer,
            0x0A => Self::NoResource,
            0x0B => Self::PsnOorWindow,
            0x19 => Self::UnexpEvent,
            other => Self::Unknown(other),
        }
    }

    /// The byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Trimmed => 0x01,
            Self::TrimmedLastHop => 0x02,
            Self::NoBitmap => 0x06,
            Self::NoPktBuffer => 0x07,
            Self::NoResource => 0x0A,
            Self::PsnOorWindow => 0x0B,
            Self::UnexpEvent => 0x19,
            Self::Unknown(byte) => byte,
        }
    }

    /// Whether the requester may go on by sending the packet again.
    #[inline]
    #[must_use]
    pub const fn is_recoverable(self) -> bool {
        //= NETH-003
        !matches!(self, Self::UnexpEvent)
    }

    /// Whether the reason speaks against the EV the packet used.
    #[inline]
    #[must_use]
    pub const fn blames_path(self) -> bool {
        matches!(self, Self::Trimmed)
    }
}

impl fmt::Display for NackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trimmed => f.write_str("trimmed"),
            Self::TrimmedLastHop => f.write_str("trimmed_lasthop"),
            Self::NoBitmap => f.write_str("no_bitmap"),
            Self::NoPktBuffer => f.write_str("no_pkt_buffer"),
            Self::NoResource => f.write_str("no_resource"),
            Self::PsnOorWindow => f.write_str("psn_oor_window"),
            Self::UnexpEvent => f.write_str("unexp_event"),
            Self::Unknown(byte) => write!(f, "unknown(0x{byte:02x})"),
        }
    }
}

/// A NACK body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NackRepr {
    /// Why.
    pub reason: NackReason,
    /// For logs only; sent as 0.
    pub vendor_info: u8,
    /// EV of the refused packet.
    pub entropy: Ev,
    /// Low half of the sender's QPN; not checked.
    pub spdcid: u16,
    /// Low half of the receiver's QPN; not checked.
    pub dpdcid: u16,
    /// The PSN refused.
    pub psn: Psn,
    /// Congestion type, 4 bits: send `WireConfig::neth_cc_type`, accept any.
    pub cc_type: u8,
    /// Reflected timestamp, 0 when there was none.
    pub timestamp: u16,
}

impl NackRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 20;
    /// The congestion type sent by default.
    //= NETH-004
    pub const CC_TYPE: u8 = 2;

    /// Reads the header; reserved bits are ignored.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        //= NETH-001
        Self {
            reason: NackReason::from_u8(b[2]),
            vendor_info: b[3],
            entropy: Ev(u32::from_be_bytes([b[4], b[5], b[6], b[7]])),
            spdcid: u16::from_be_bytes([b[8], b[9]]),
            dpdcid: u16::from_be_bytes([b[10], b[11]]),
            psn: Psn::new(u32::from_be_bytes([0, b[13], b[14], b[15]])),
            cc_type: b[16] >> 4,
            timestamp: u16::from_be_bytes([b[18], b[19]]),
        }
    }

    /// Writes every byte.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [e0, e1, e2, e3] = self.entropy.0.to_be_bytes();
        let [s0, s1] = self.spdcid.to_be_bytes();
        let [d0, d1] = self.dpdcid.to_be_bytes();
        let [_, p0, p1, p2] = self.psn.value().to_be_bytes();
        let [t0, t1] = self.timestamp.to_be_bytes();
        *out = [
            0,
            0,
            self.reason.to_u8(),
            self.vendor_info,
            e0,
            e1,
            e2,
            e3,
            s0,
            s1,
            d0,
            d1, //
            0,
            p0,
            p1,
            p2,
            self.cc_type << 4,
            0,
            t0,
            t1,
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= NETH-002 test
    //= NETH-003 test
    #[test]
    fn reasons_keep_their_codes() {
        for byte in 0..=255 {
            let reason = NackReason::from_u8(byte);
            assert_eq!(reason.to_u8(), byte);
            assert_eq!(reason.is_recoverable(), byte != 0x19);
            assert_eq!(reason.blames_path(), byte == 0x01);
        }
        let named = (0..=255).filter(|b| !matches!(NackReason::from_u8(*b), NackReason::Unknown(_)));
        assert!(named.eq([0x01, 0x02, 0x06, 0x07, 0x0A, 0x0B, 0x19]));
    }

    //= NETH-001 test
    //= NETH-004 test
    #[test]
    fn reserved_bits_are_ignored_and_any_congestion_type_is_taken() {
        let b = [0xFF; 20];
        let n = NackRepr::parse(&b);
        assert_eq!(n.cc_type, 15);
        let mut out = [0; 20];
        n.emit(&mut out);
        assert_eq!([out[0], out[1], out[12], out[16], out[17]], [0, 0, 0, 0xF0, 0]);
        assert_eq!(NackRepr::parse(&out), n);
    }
}

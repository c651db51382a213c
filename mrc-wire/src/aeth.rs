//! Transport acknowledgement, 4 bytes, and its syndromes, wire.md section 5.

use core::fmt;

/// The verdict of a Transport ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// 0x00..=0x1F: positive; the value is the credit field, always 0x1F in MRC.
    Ack(u8),
    /// 0x20..=0x3F: receiver not ready; MRC never sends it.
    RnrNak(u8),
    /// 0x60: PSN sequence error; replaced by SACK and NACK.
    PsnSequenceError,
    /// 0x61: length or opcode rule broken.
    InvalidRequest,
    /// 0x62: bad key, bounds or rights.
    RemoteAccess,
    /// 0x63: the responder failed.
    RemoteOperational,
    /// Any other byte; with bits 6:5 set it is a NAK of an unknown kind.
    Other(u8),
}

impl Syndrome {
    /// The one positive syndrome MRC sends.
    //= AETH-001
    pub const ACK: Self = Self::Ack(0x1F);

    /// The syndrome a byte stands for.
    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Self {
        match byte {
            0x00..=0x1F => Self::Ack(byte),
            0x20..=0x3F => Self::RnrNak(byte & 0x1F),
            0x60 => Self::PsnSequenceError,
            0x61 => Self::InvalidRequest,
            0x62 => Self::RemoteAccess,
            0x63 => Self::RemoteOperational,
            other => Self::Other(other),
        }
    }

    /// The byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Ack(credit) => credit & 0x1F,
            Self::RnrNak(timer) => 0x20 | timer & 0x1F,
            Self::PsnSequenceError => 0x60,
            Self::InvalidRequest => 0x61,
            Self::RemoteAccess => 0x62,
            Self::RemoteOperational => 0x63,
            Self::Other(byte) => byte,
        }
    }

    /// Whether the acknowledgement is positive.
    #[inline]
    #[must_use]
    pub const fn is_ack(self) -> bool {
        matches!(self, Self::Ack(_))
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack(_) => f.write_str("ack"),
            Self::RnrNak(_) => f.write_str("rnr_nak"),
            Self::PsnSequenceError => f.write_str("nak_psn_sequence"),
            Self::InvalidRequest => f.write_str("nak_invalid_request"),
            Self::RemoteAccess => f.write_str("nak_remote_access"),
            Self::RemoteOperational => f.write_str("nak_remote_operational"),
            // Bit 7 is reserved, and bits 6:5 = 10 are no NAK.
            Self::Other(byte @ 0x80..) => write!(f, "{}", Self::from_u8(byte & 0x7F)),
            Self::Other(byte) if byte & 0x60 != 0x60 => write!(f, "reserved(0x{byte:02x})"),
            Self::Other(byte) => write!(f, "nak_unknown(0x{byte:02x})"),
        }
    }
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AethRepr {
    /// The verdict.
    pub syndrome: Syndrome,
    /// Messages completed by the responder, modulo 2^24; statistics only.
    pub msn: u32,
}

impl AethRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the header.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self { syndrome: Syndrome::from_u8(b[0]), msn: u32::from_be_bytes([0, b[1], b[2], b[3]]) }
    }

    /// Writes every byte; the top byte of `msn` is dropped.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        let [_, m0, m1, m2] = self.msn.to_be_bytes();
        *out = [self.syndrome.to_u8(), m0, m1, m2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= AETH-001 test
    #[test]
    fn every_syndrome_survives_the_round_trip() {
        for byte in 0..=255 {
            let s = Syndrome::from_u8(byte);
            assert_eq!(s.to_u8(), byte);
            assert_eq!(s.is_ack(), byte < 0x20);
        }
        assert_eq!(Syndrome::ACK.to_u8(), 0x1F);
    }

    //= AETH-009 test
    #[test]
    fn a_reserved_bit_changes_no_name() {
        let name = |byte| std::format!("{}", Syndrome::from_u8(byte));
        for byte in 0..0x80 {
            assert_eq!(name(byte | 0x80), name(byte));
            assert_eq!(name(byte).starts_with("reserved"), (0x40..0x60).contains(&byte), "{byte:#x}");
            assert_eq!(name(byte).starts_with("nak"), byte >= 0x60, "{byte:#x}");
        }
    }

    #[test]
    fn the_message_number_has_24_bits() {
        let mut out = [0; 4];
        AethRepr { syndrome: Syndrome::InvalidRequest, msn: 0xFF01_0203 }.emit(&mut out);
        assert_eq!(out, [0x61, 1, 2, 3]);
        assert_eq!(AethRepr::parse(&out), AethRepr { syndrome: Syndrome::InvalidRequest, msn: 0x01_0203 });
    }
}

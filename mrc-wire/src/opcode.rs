//! The opcode table, wire.md section 10.

use core::fmt;

/// What a packet is. The first byte of BTH; its top three bits are 110 in all MRC packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// 0xC6, first packet of a write of several packets.
    WriteFirst,
    /// 0xC7, neither first nor last.
    WriteMiddle,
    /// 0xC8, last packet of a plain write.
    WriteLast,
    /// 0xC9, last packet of a write with immediate.
    WriteLastImm,
    /// 0xCA, a plain write of one packet.
    WriteOnly,
    /// 0xCB, a write with immediate of one packet.
    WriteOnlyImm,
    /// 0xD1, Transport ACK or NAK.
    Ack,
    /// 0xD8, endpoint request.
    EndpointRequest,
    /// 0xD9, endpoint response.
    EndpointResponse,
    /// 0xDC, selective acknowledgement.
    Sack,
    /// 0xDD, refusal of one packet.
    Nack,
    /// 0xDE, reliability probe.
    Probe,
    /// Any other byte; such packets are dropped.
    Unknown(u8),
}

impl Opcode {
    /// Every opcode of the table, in its order.
    pub const ALL: [Self; 12] = [
        Self::WriteFirst,
        Self::WriteMiddle,
        Self::WriteLast,
        Self::WriteLastImm,
        Self::WriteOnly,
        Self::WriteOnlyImm,
        Self::Ack,
        Self::EndpointRequest,
        Self::EndpointResponse,
        Self::Sack,
        Self::Nack,
        Self::Probe,
    ];

    /// The opcode a byte stands for.
    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Self {
        //= OPC-001
        match byte {
            0xC6 => Self::WriteFirst,
            0xC7 => Self::WriteMiddle,
            0xC8 => Self::WriteLast,
            0xC9 => Self::WriteLastImm,
            0xCA => Self::WriteOnly,
            0xCB => Self::WriteOnlyImm,
            0xD1 => Self::Ack,
            0xD8 => Self::EndpointRequest,
            0xD9 => Self::EndpointResponse,
            0xDC => Self::Sack,
            0xDD => Self::Nack,
            0xDE => Self::Probe,
            other => Self::Unknown(other),
        }
    }

    /// The byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::WriteFirst => 0xC6,
            Self::WriteMiddle => 0xC7,
            Self::WriteLast => 0xC8,
            Self::WriteLastImm => 0xC9,
            Self::WriteOnly => 0xCA,
            Self::WriteOnlyImm => 0xCB,
            Self::Ack => 0xD1,
            Self::EndpointRequest => 0xD8,
            Self::EndpointResponse => 0xD9,
            Self::Sack => 0xDC,
            Self::Nack => 0xDD,
            Self::Probe => 0xDE,
            Self::Unknown(byte) => byte,
        }
    }

    /// Carries METH, RETH and payload.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::WriteFirst
                | Self::WriteMiddle
                | Self::WriteLast
                | Self::WriteLastImm
                | Self::WriteOnly
                | Self::WriteOnlyImm
        )
    }

    /// Carries ImmDt.
    #[inline]
    #[must_use]
    pub const fn has_imm(self) -> bool {
        matches!(self, Self::WriteLastImm | Self::WriteOnlyImm)
    }

    /// Opens a message: FIRST or ONLY.
    #[inline]
    #[must_use]
    pub const fn is_first(self) -> bool {
        matches!(self, Self::WriteFirst | Self::WriteOnly | Self::WriteOnlyImm)
    }

    /// Closes a message: LAST or ONLY.
    #[inline]
    #[must_use]
    pub const fn ends_message(self) -> bool {
        matches!(self, Self::WriteLast | Self::WriteLastImm | Self::WriteOnly | Self::WriteOnlyImm)
    }

    /// The write opcode of a packet with the given place in its message.
    ///
    /// `imm` says whether the message is a WriteIMM; it shows in the closing packet only.
    #[inline]
    #[must_use]
    pub const fn write(first: bool, last: bool, imm: bool) -> Self {
        match (first, last, imm) {
            (true, true, false) => Self::WriteOnly,
            (true, true, true) => Self::WriteOnlyImm,
            (true, false, _) => Self::WriteFirst,
            (false, false, _) => Self::WriteMiddle,
            (false, true, false) => Self::WriteLast,
            (false, true, true) => Self::WriteLastImm,
        }
    }

    /// The name used in logs and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteFirst => "WRITE_FIRST",
            Self::WriteMiddle => "WRITE_MIDDLE",
            Self::WriteLast => "WRITE_LAST",
            Self::WriteLastImm => "WRITE_LAST_IMM",
            Self::WriteOnly => "WRITE_ONLY",
            Self::WriteOnlyImm => "WRITE_ONLY_IMM",
            Self::Ack => "ACK",
            Self::EndpointRequest => "EP_REQUEST",
            Self::EndpointResponse => "EP_RESPONSE",
            Self::Sack => "SACK",
            Self::Nack => "NACK",
            Self::Probe => "PROBE",
            Self::Unknown(_) => "UNKNOWN",
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(byte) => write!(f, "UNKNOWN(0x{byte:02x})"),
            known => f.pad(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    //= OPC-001 test
    #[test]
    fn every_byte_survives_the_round_trip() {
        for byte in 0..=255 {
            assert_eq!(Opcode::from_u8(byte).to_u8(), byte);
        }
        let known = (0..=255).filter(|b| !matches!(Opcode::from_u8(*b), Opcode::Unknown(_)));
        assert!(known.eq(Opcode::ALL.iter().map(|o| o.to_u8())));
        assert!(Opcode::ALL.iter().all(|o| o.to_u8() >> 5 == 0b110));
    }

    #[test]
    fn the_place_in_a_message_gives_the_opcode() {
        for first in [false, true] {
            for last in [false, true] {
                for imm in [false, true] {
                    let op = Opcode::write(first, last, imm);
                    assert!(op.is_write());
                    assert_eq!((op.is_first(), op.ends_message(), op.has_imm()), (first, last, last && imm));
                }
            }
        }
        assert!(!Opcode::Probe.is_write());
    }
}

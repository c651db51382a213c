//! Base transport header, 12 bytes, wire.md section 4.

use crate::bytes::u32_at;
use crate::packet::bth_of;
use crate::{Opcode, PacketHead, Psn, Qpn, WireError};

/// Position of the solicited bit in byte 1 (IBTA order); see `WireConfig::bth_se_bit`.
pub(crate) const SE_BIT: u8 = 7;

/// Offsets and bits of wire.md section 4.
mod field {
    pub(super) const PAD_SHIFT: u8 = 4;
    pub(super) const PAD_MASK: u8 = 3;
    pub(super) const TVER_MASK: u8 = 0x0F;
    pub(super) const ACK_REQ: u8 = 0x80;
    pub(super) const RTX: u8 = 0x20;
    pub(crate) const TS: u8 = 0x10;
}

/// The base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BthRepr {
    /// What the packet is and which headers follow.
    pub opcode: Opcode,
    /// Solicited event; only on the closing packet of a WriteIMM.
    pub se: bool,
    /// Filler bytes after the payload, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Destination QP.
    pub dest_qp: Qpn,
    /// Asks for a SACK.
    pub ack_req: bool,
    /// The packet is a retransmission.
    pub rtx: bool,
    /// A TSETH follows METH; means nothing outside writes.
    pub ts: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl BthRepr {
    /// Bytes on the wire.
    pub const LEN: usize = 12;

    /// The partition key of the default partition, full member.
    pub const DEFAULT_PKEY: u16 = 0xFFFF;

    /// A header with the default partition key and all flags clear.
    #[inline]
    #[must_use]
    pub const fn new(opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            se: false,
            pad: 0,
            //= BTH-006
            pkey: Self::DEFAULT_PKEY,
            dest_qp,
            ack_req: false,
            rtx: false,
            ts: false,
            psn,
        }
    }

    /// Reads the header; reserved bits are ignored, an unknown opcode is kept.
    ///
    /// # Errors
    /// `WireError::Version` when the transport version is not 0.
    #[inline]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, WireError> {
        Self::parse_with(bytes, SE_BIT)
    }

    /// As [`BthRepr::parse`], with the solicited bit at `se_bit` (7 or 6; anything else means 7).
    ///
    /// # Errors
    /// `WireError::Version` when the transport version is not 0.
    #[inline]
    pub const fn parse_with(b: &[u8; Self::LEN], se_bit: u8) -> Result<Self, WireError> {
        //= VAL-008
        if version(b) != 0 {
            return Err(WireError::Version(version(b)));
        }
        Ok(Self::read(b, Opcode::from_u8(b[0]), se_bit))
    }

    /// The fields of a header whose opcode and version are known.
    #[inline]
    pub(crate) const fn read(b: &[u8; Self::LEN], opcode: Opcode, se_bit: u8) -> Self {
        //= BTH-001
        Self {
            opcode,
            se: b[1] & se_mask(se_bit) != 0,
            pad: pad(b),
            pkey: u16::from_be_bytes([b[2], b[3]]),
            dest_qp: dest_qp(b),
            ack_req: ack_req(b),
            rtx: rtx(b),
            ts: timestamped(b),
            psn: psn(b),
        }
    }

    /// Writes every byte; reserved bits and the version are zero.
    #[inline]
    pub const fn emit(&self, out: &mut [u8; Self::LEN]) {
        self.emit_with(out, SE_BIT);
    }

    /// Writes flags and PSN over those of another header.
    #[inline(always)]
    pub const fn emit_psn(&self, out: &mut [u8; Self::LEN]) {
        [out[8], out[9], out[10], out[11]] = self.last_word().to_be_bytes();
    }

    /// Flags and PSN.
    #[inline(always)]
    const fn last_word(&self) -> u32 {
        let flags = if self.ack_req { field::ACK_REQ } else { 0 }
            | if self.rtx { field::RTX } else { 0 }
            | if self.ts { field::TS } else { 0 };
        (flags as u32) << 24 | self.psn.value()
    }

    /// As [`BthRepr::emit`], with the solicited bit at `se_bit` (7 or 6; anything else means 7).
    #[inline(always)]
    pub const fn emit_with(&self, out: &mut [u8; Self::LEN], se_bit: u8) {
        let se = if self.se { se_mask(se_bit) } else { 0 };
        //= BTH-005
        //= GEN-002
        let byte1 = se | (self.pad & field::PAD_MASK) << field::PAD_SHIFT;
        // Whole words: byte by byte it takes five times as many instructions.
        let first = (self.opcode.to_u8() as u64) << 56
            | (byte1 as u64) << 48
            | (self.pkey as u64) << 32
            | self.dest_qp.value() as u64;
        let [a, b, c, d, e, f, g, h] = first.to_be_bytes();
        let [i, j, k, l] = self.last_word().to_be_bytes();
        *out = [a, b, c, d, e, f, g, h, i, j, k, l];
    }
}

#[inline]
pub(crate) const fn version(b: &[u8; BthRepr::LEN]) -> u8 {
    b[1] & field::TVER_MASK
}

#[inline]
pub(crate) const fn pad(b: &[u8; BthRepr::LEN]) -> u8 {
    b[1] >> field::PAD_SHIFT & field::PAD_MASK
}

// Whole words, of which the numbers take 24 bits.
#[inline]
pub(crate) const fn dest_qp(b: &[u8; BthRepr::LEN]) -> Qpn {
    Qpn::new(u32_at::<4, _>(b))
}

/// The byte of flags before the PSN.
#[inline]
pub(crate) const fn flags(b: &[u8; BthRepr::LEN]) -> u8 {
    b[8]
}

impl PacketHead<'_> {
    /// Whether a write ends a message, asks for an acknowledgement or is a retransmission.
    #[inline(always)]
    #[must_use]
    pub const fn is_special(&self) -> bool {
        let b = bth_of(self.l4);
        (b[0] & 8) | (flags(b) & (field::ACK_REQ | field::RTX)) != 0
    }
}

/// The flag of [`timestamped`].
pub(crate) const TS: u8 = field::TS;

#[inline]
pub(crate) const fn timestamped(b: &[u8; BthRepr::LEN]) -> bool {
    b[8] & field::TS != 0
}

#[inline]
pub(crate) const fn ack_req(b: &[u8; BthRepr::LEN]) -> bool {
    b[8] & field::ACK_REQ != 0
}

#[inline]
pub(crate) const fn rtx(b: &[u8; BthRepr::LEN]) -> bool {
    b[8] & field::RTX != 0
}

#[inline]
pub(crate) const fn psn(b: &[u8; BthRepr::LEN]) -> Psn {
    Psn::new(u32_at::<8, _>(b))
}

#[inline]
const fn se_mask(bit: u8) -> u8 {
    //= BTH-002
    if bit == 6 { 0x40 } else { 0x80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BthRepr {
        BthRepr {
            ack_req: true,
            ts: true,
            pad: 3,
            ..BthRepr::new(Opcode::WriteOnly, Qpn::new(0x01_B0B2), Psn::new(0x100))
        }
    }

    const BYTES: [u8; 12] = [0xCA, 0x30, 0xFF, 0xFF, 0, 0x01, 0xB0, 0xB2, 0x90, 0, 1, 0];

    //= BTH-001 test
    //= BTH-004 test
    //= BTH-005 test
    //= BTH-006 test
    #[test]
    fn fields_sit_where_the_table_puts_them() {
        let mut out = [0xAA; 12];
        sample().emit(&mut out);
        assert_eq!(out, BYTES);
        assert_eq!(BthRepr::parse(&BYTES), Ok(sample()));
    }

    //= GEN-002 test
    #[test]
    fn reserved_bits_are_ignored() {
        let mut b = BYTES;
        b[1] |= 0x40;
        b[4] = 0xFF;
        b[8] |= 0x4F;
        assert_eq!(BthRepr::parse(&b), Ok(sample()));
    }

    //= VAL-008 test
    #[test]
    fn another_version_is_refused() {
        let mut b = BYTES;
        b[1] |= 5;
        assert_eq!(BthRepr::parse(&b), Err(WireError::Version(5)));
    }

    //= BTH-002 test
    #[test]
    fn the_solicited_bit_follows_its_knob() {
        let se = BthRepr { se: true, ..sample() };
        let mut out = [0; 12];
        se.emit(&mut out);
        assert_eq!(out[1], 0xB0);
        se.emit_with(&mut out, 6);
        assert_eq!(out[1], 0x70);
        assert_eq!(BthRepr::parse_with(&out, 6), Ok(se));
        assert_eq!(BthRepr::parse(&out), Ok(sample()), "bit 6 means nothing in IBTA order");
    }
}

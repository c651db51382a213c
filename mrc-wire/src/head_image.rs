//! The head that a queue pair expects, taken from a packet that was parsed in full, and the shape of its last write. A masked comparison
//! shows whether a frame has the same head, or repeats the write. `plain` finds the headers of a frame.

use crate::bytes::chunk_at;
use crate::ip::{ETH_LEN, IPV6_LEN, NH_IPV6, NH_UDP, UDP_LEN};
use crate::layer3::L3;
use crate::packet::{L4_LEN, bth_of};
use crate::plain::PlainFrame;
use crate::{Opcode, PacketHead, WriteHeaders, bth, icrc};
use core::ops::Range;

/// Offsets from the IPv6 header that carries UDP.
const BTH: usize = IPV6_LEN + UDP_LEN;

/// MIDDLE lies between FIRST and LAST.
const FIRST: u8 = Opcode::WriteFirst.to_u8();
const LAST: u8 = Opcode::WriteLast.to_u8();
const ONLY: u8 = Opcode::WriteOnly.to_u8();

/// Words of a head: the IPv6 header that carries UDP, UDP, and BTH up to the destination QP, in as many bytes.
const WORDS: usize = (BTH + 8) / 8;

/// What of each word all packets of a peer to a QP share: version and next header; the addresses; the destination port; version of
/// BTH, partition key and destination QP.
const FIXED: [u64; WORDS] = [
    0xF000_0000_0000_FF00_u64.to_be(),
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    0x0000_FFFF_0000_0000_u64.to_be(),
    0x000F_FFFF_00FF_FFFF_u64.to_be(),
];

/// What of each word writes share that are alike: the ECN field and the lengths, too, and all of BTH up to the destination QP but
/// five bits of the opcode and what is reserved.
const ALIKE: [u64; WORDS] = [
    0xF030_0000_FFFF_FF00_u64.to_be(),
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    0x0000_FFFF_FFFF_0000_u64.to_be(),
    0xE0FF_FFFF_00FF_FFFF_u64.to_be(),
];

/// The same of the first word of the outermost IPv6 header: version, traffic class, length and next header.
const ALIKE_OUTERMOST: u64 = 0xFFF0_0000_FFFF_FF00_u64.to_be();

/// The head that all packets from one peer to one QP share, taken from a packet that was parsed in full; and what the writes share that
/// repeat the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeadImage {
    words: [u64; WORDS],
    outermost: u64,
    /// Key and length of the message.
    message: u64,
    shape: WriteShape,
}

/// Offsets, lengths and flags of a write: what it shares with other writes of the same kind. All full packets of a message have the
/// same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct WriteShape {
    /// Modulo 2^16, of which all headers together have fewer bytes.
    payload_at: u16,
    payload_len: u16,
    /// With the ICRC, modulo 2^16.
    frame_len: u16,
    /// Which opcodes may have it, bit n for FIRST + n: a message of one packet, or a packet of a longer one.
    opcodes: u8,
    /// The flag of the timestamp where BTH has it in its byte.
    timestamped: u8,
}

impl WriteShape {
    /// No shape.
    const NONE: Self = Self { payload_at: 0, payload_len: 0, frame_len: 0, opcodes: 0, timestamped: 0 };

    /// That of a write with this payload, which [`PacketView::parse`](crate::PacketView::parse) would give it.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &PacketHead<'_>, payload: &Range<usize>) -> Self {
        let whole = packet.begins_message() && packet.ends_message();
        Self {
            payload_at: payload.start as u16,
            payload_len: payload.end.wrapping_sub(payload.start) as u16,
            frame_len: packet.icrc_offset.wrapping_add(icrc::LEN) as u16,
            opcodes: if whole { 1 << (ONLY - FIRST) } else { (2 << (LAST - FIRST)) - 1 },
            timestamped: bth::flags(bth_of(packet.l4)) & bth::TS,
        }
    }

    /// Bytes of payload.
    #[inline(always)]
    #[must_use]
    pub const fn payload_len(self) -> u32 {
        self.payload_len as u32
    }

    /// Bytes of the frame that are payload.
    #[inline(always)]
    #[must_use]
    pub const fn payload(self) -> Range<usize> {
        let start = self.payload_at as usize;
        start..start.wrapping_add(self.payload_len as usize)
    }

    /// Whether a write with this opcode may have it, which is one of the 32 that writes are among.
    #[inline(always)]
    const fn allows(self, opcode: u8) -> bool {
        (self.opcodes as u32).wrapping_shr(opcode.wrapping_sub(FIRST) as u32) & 1 != 0
    }
}

impl HeadImage {
    /// The head of no packet.
    pub const NONE: Self = Self { words: [0; WORDS], outermost: 0, message: 0, shape: WriteShape::NONE };

    /// A word of each line of memory that it lies in.
    #[must_use]
    pub const fn lines(&self) -> [&u64; 2] {
        let [first, ..] = &self.words;
        [first, &self.message]
    }

    /// What the writes have that [`Self::repeats`] finds.
    #[inline(always)]
    #[must_use]
    pub const fn shape(&self) -> WriteShape {
        self.shape
    }

    /// The head of `packet`, which [`PacketView::parse`](crate::PacketView::parse) has read, and whose addresses, partition and destination QP were found
    /// right. [`HeadImage::NONE`] where UDP does not lie in IPv6.
    #[must_use]
    pub fn of(packet: &PacketHead<'_>) -> Self {
        match packet.l3 {
            L3::V6 { ip, .. } if ip[6] == NH_UDP => Self { words: words(ip, packet.l4), ..Self::NONE },
            _ => Self::NONE,
        }
    }

    /// Expects more writes like `packet`, which has this head and the shape `shape`: a message of one packet, or a full packet of a longer
    /// message. The caller has checked all that these writes share.
    #[inline(never)]
    pub fn expect(&mut self, packet: &PacketHead<'_>, write: &WriteHeaders<'_>, shape: WriteShape) {
        if let L3::V6 { outermost, ip } = packet.l3
            && write.imm().is_none()
            && !packet.ce()
            && packet.icrc_offset <= usize::from(u16::MAX).wrapping_sub(icrc::LEN)
            // Nothing else lies between the headers of a plain packet.
            && (core::ptr::eq(outermost, ip) && packet.l3_offset == ETH_LEN
                || outermost[6] == NH_IPV6 && packet.l3_offset == ETH_LEN + IPV6_LEN)
        {
            self.words = words(ip, packet.l4);
            (self.outermost, self.message, self.shape) = (word_at::<0, _>(outermost), message_of(write), shape);
        }
    }

    /// Whether `packet` has this head: then all that is the same in both was found right before.
    //= VAL-004, VAL-005, VAL-007, VAL-008, VAL-011, VAL-012, VAL-013
    #[inline(always)]
    #[must_use]
    pub fn fits(&self, packet: &PacketHead<'_>) -> bool {
        let L3::V6 { ip, .. } = packet.l3 else { return false };
        self.differs(ip, packet.l4, &FIXED) == 0
    }

    /// What of the words differs that `masks` names.
    #[inline(always)]
    fn differs(&self, ip: &[u8; IPV6_LEN], l4: &[u8; L4_LEN], masks: &[u64; WORDS]) -> u64 {
        let differ = self.words.iter().zip(words(ip, l4)).zip(masks);
        differ.fold(0, |bits, ((ours, theirs), mask)| bits | (ours ^ theirs) & mask)
    }

    /// Reads `frame` as a write, if it repeats the last one that was [expected](Self::expect) to be repeated. Then it passes steps 1 and
    /// 3 to 9 and has no congestion mark; the caller checks the rest as after [`PlainFrame::packet`].
    //= ETH-001, VAL-001, VAL-002, VAL-006, VAL-009, UDP-002, UDP-003, UDP-004, HOST-001
    #[inline(always)]
    #[must_use]
    pub fn repeats<'a>(
        &self,
        frame: &PlainFrame<'a>,
        wire_len: usize,
    ) -> Option<(PacketHead<'a>, WriteHeaders<'a>, WriteShape)> {
        let &PlainFrame { outermost, ip, l4, rest, l3_offset } = frame;
        let write = WriteHeaders::split(self.shape.timestamped != 0, false, rest)?;
        let differ = self.differs(ip, l4, &ALIKE)
            | (self.outermost ^ word_at::<0, _>(outermost)) & ALIKE_OUTERMOST
            | self.message ^ message_of(&write)
            | u64::from((self.shape.timestamped ^ bth::flags(bth_of(l4))) & bth::TS);
        let frame_len = usize::from(self.shape.frame_len);
        // No frame is like the image of none, because that has not the version of IPv6.
        if differ != 0 || !self.shape.allows(l4[UDP_LEN]) || frame_len > wire_len {
            return None;
        }
        let icrc_offset = frame_len.wrapping_sub(icrc::LEN);
        Some((PacketHead { l3: L3::V6 { outermost, ip }, l4, l3_offset, icrc_offset }, write, self.shape))
    }
}

/// Key and length of the message, as they lie in memory.
#[inline(always)]
fn message_of(write: &WriteHeaders<'_>) -> u64 {
    word_at::<8, _>(write.reth)
}

#[inline(always)]
fn words(ip: &[u8; IPV6_LEN], l4: &[u8; L4_LEN]) -> [u64; WORDS] {
    [
        word_at::<0, _>(ip),
        word_at::<8, _>(ip),
        word_at::<16, _>(ip),
        word_at::<24, _>(ip),
        word_at::<32, _>(ip),
        word_at::<0, _>(l4),
        word_at::<8, _>(l4),
    ]
}

/// Eight bytes as they lie in memory. There always are: the place is checked at compile time.
#[inline(always)]
fn word_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    chunk_at::<AT, 8, N>(bytes).map_or(0, |word| u64::from_ne_bytes(*word))
}

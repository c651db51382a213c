//! The commonest frames by far, read with every header at a known place: writes without immediate, SACKs and Transport ACKs, in
//! IPv6 or in IPv6 in IPv6, without VLAN tag, routing header or trimming. [`PacketHead::plain`] looks at what differs from packet
//! to packet; that the rest is right is one comparison with the head of a packet that was read in full before ([`HeadImage`]).
//! What passes both passes [`PacketView::parse`](crate::PacketView::parse), too, and reads alike (`tests/properties.rs` holds them together). All else has
//! to go there, to be read or to learn what is wrong with it.

use crate::bytes::{chunk_at, u16_at, u32_at};
use crate::ip::{ETH_LEN, ETHERTYPE_IPV6, IPV6_LEN, NH_IPV6, NH_UDP, UDP_LEN};
use crate::layer3::L3;
use crate::packet::{L4_LEN, bth_of};
use crate::{
    AethRepr, Extension, MethRepr, Opcode, PacketHead, RethRepr, SackRepr, TsethRepr, WireConfig, WriteHeaders, bth,
    icrc,
};
use core::ops::Range;

/// Offsets from the IPv6 header that carries UDP.
const BTH: usize = IPV6_LEN + UDP_LEN;

const SACK: u8 = Opcode::Sack.to_u8();
const ACK: u8 = Opcode::Ack.to_u8();

/// Words of a head that do not change from packet to packet: the IPv6 header that carries UDP, UDP, and BTH up to the
/// destination QP, in as many bytes.
const WORDS: usize = (BTH + 8) / 8;

/// What of each word does not change: version and next header; the addresses; the destination port; version of BTH, partition
/// key and destination QP.
const FIXED: [u64; WORDS] = [
    0xF000_0000_0000_FF00_u64.to_be(),
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    0x0000_FFFF_0000_0000_u64.to_be(),
    0x000F_FFFF_00FF_FFFF_u64.to_be(),
];

/// The head that the packets of one peer to one QP have, taken from one that was read in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadImage([u64; WORDS]);

impl HeadImage {
    /// The head of no packet.
    pub const NONE: Self = Self([0; WORDS]);

    /// A word of each line of memory that it lies in.
    #[must_use]
    pub const fn lines(&self) -> [&u64; 2] {
        let [first, .., last] = &self.0;
        [first, last]
    }

    /// The head of `packet`, which [`PacketView::parse`](crate::PacketView::parse) has read, and whose addresses, partition and destination QP were found
    /// right. [`HeadImage::NONE`] where UDP does not lie in IPv6.
    #[must_use]
    pub fn of(packet: &PacketHead<'_>) -> Self {
        match packet.l3 {
            L3::V6 { ip, .. } if ip[6] == NH_UDP => {
                let mut words = words(ip, packet);
                for (word, fixed) in words.iter_mut().zip(FIXED) {
                    *word &= fixed;
                }
                Self(words)
            }
            _ => Self::NONE,
        }
    }

    /// Whether `packet` has this head: then all that is the same in both was found right before.
    //= VAL-004, VAL-005, VAL-007, VAL-008, VAL-011, VAL-012, VAL-013
    #[inline(always)]
    #[must_use]
    pub fn fits(&self, packet: &PacketHead<'_>) -> bool {
        let L3::V6 { ip, .. } = packet.l3 else { return false };
        let differ = self.0.iter().zip(words(ip, packet)).zip(FIXED);
        differ.fold(0, |bits, ((ours, theirs), fixed)| bits | (ours ^ theirs) & fixed) == 0
    }
}

#[inline(always)]
fn words(ip: &[u8; IPV6_LEN], packet: &PacketHead<'_>) -> [u64; WORDS] {
    [
        word_at::<0, _>(ip),
        word_at::<8, _>(ip),
        word_at::<16, _>(ip),
        word_at::<24, _>(ip),
        word_at::<32, _>(ip),
        word_at::<0, _>(packet.l4),
        word_at::<8, _>(packet.l4),
    ]
}

impl<'a> PacketHead<'a> {
    /// Looks at a frame whose layers and lengths are those of a plain one; arguments as in [`PacketView::parse`](crate::PacketView::parse). `None` for any
    /// other kind, and where lengths do not agree. It is right if it has a [`HeadImage`] that fits; the caller also asks whether
    /// [`Self::outermost_dst`] is one of its own (step 2) and goes on with step 10.
    //= ETH-001, VAL-001, VAL-002, VAL-006, UDP-002, UDP-003, UDP-004, HOST-001
    #[inline(always)]
    #[must_use]
    pub fn plain(head: &'a [u8], wire_len: usize, cfg: &WireConfig) -> Option<(Self, &'a [u8])> {
        let first: &[u8; ETH_LEN + IPV6_LEN] = head.first_chunk()?;
        // Ethertype and version together.
        if u32_at::<{ ETH_LEN - 2 }, _>(first) >> 12 != u32::from(ETHERTYPE_IPV6) << 4 | 6 {
            return None;
        }
        let outermost = chunk_at::<ETH_LEN, IPV6_LEN, _>(first)?;
        let tunnel = if outermost[6] == NH_IPV6 { IPV6_LEN } else { 0 };
        let l3_offset = tunnel.wrapping_add(ETH_LEN);
        let (headers, rest) = head.get(l3_offset..)?.split_first_chunk::<{ IPV6_LEN + L4_LEN }>()?;
        let (ip, l4) = (chunk_at::<0, IPV6_LEN, _>(headers)?, chunk_at::<IPV6_LEN, L4_LEN, _>(headers)?);
        let udp_len = u16_at::<4, _>(l4);
        // Layers that carry nothing besides have lengths that agree.
        let beside = usize::from(u16_at::<4, _>(outermost)) != tunnel.wrapping_add(udp_len.into());
        let icrc_offset = l3_offset.wrapping_add(IPV6_LEN - icrc::LEN).wrapping_add(udp_len.into());
        if beside || u16_at::<4, _>(ip) != udp_len || icrc_offset.wrapping_add(icrc::LEN) > wire_len {
            return None;
        }
        let dscp = (u16_at::<0, _>(outermost) >> 6) as u8 & 0x3F;
        if cfg.dscp.trim(dscp).is_some() {
            return None;
        }
        Some((Self { l3: L3::V6 { outermost, ip }, l4, l3_offset, icrc_offset }, rest))
    }
}

impl<'a> Extension<'a> {
    /// What follows BTH in a plain packet, and the payload of a write; `None` for other kinds than a write without immediate, a
    /// SACK and an ACK, and where it is too short.
    //= VAL-009
    #[inline(always)]
    #[must_use]
    pub fn plain(packet: &PacketHead<'a>, rest: &'a [u8]) -> Option<(Self, Range<usize>)> {
        let (extension, len) = match packet.l4[UDP_LEN] {
            opcode if is_write(opcode) => {
                let ts = bth::timestamped(bth_of(packet.l4));
                let len =
                    if ts { MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN } else { MethRepr::LEN + RethRepr::LEN };
                (Self::Write(WriteHeaders::split(ts, false, rest)?), len)
            }
            SACK => (Self::Sack(rest.first_chunk()?), SackRepr::LEN),
            ACK => (Self::Ack(rest.first_chunk()?), AethRepr::LEN),
            _ => return None,
        };
        let from = packet.l3_offset.wrapping_add(IPV6_LEN + L4_LEN).wrapping_add(len);
        let payload = from..packet.icrc_offset.wrapping_sub(packet.pad().into());
        (payload.start <= payload.end).then_some((extension, payload))
    }
}

/// The opcodes of writes without immediate: FIRST, MIDDLE, LAST and ONLY.
#[inline(always)]
const fn is_write(opcode: u8) -> bool {
    let nth = opcode.wrapping_sub(0xC6);
    nth < 5 && nth != 3
}

/// Eight bytes as they lie in memory. There always are: the place is checked at compile time.
#[inline(always)]
fn word_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    chunk_at::<AT, 8, N>(bytes).map_or(0, |word| u64::from_ne_bytes(*word))
}

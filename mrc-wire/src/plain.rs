//! The commonest frames by far, read with every header at a known place: writes without immediate, SACKs and Transport ACKs, in
//! IPv6 or in IPv6 in IPv6, without VLAN tag, routing header or trimming. A [`PlainFrame`] says where their headers are. That the
//! headers are right is one comparison with those of a packet that was read in full before ([`HeadImage`](crate::HeadImage)). A
//! write that differs from the last one only in number, place and path is read at once
//! ([`HeadImage::repeats`](crate::HeadImage::repeats)). Others of the same peer are read after a look at their lengths
//! ([`PlainFrame::packet`], [`HeadImage::fits`](crate::HeadImage::fits)). What passes passes
//! [`PacketView::parse`](crate::PacketView::parse), too, and reads alike (`tests/properties.rs` holds them together). All else has
//! to go there, to be read or to learn what is wrong with it.

use crate::bytes::{chunk_at, u16_at, u32_at};
use crate::ip::{ETH_LEN, ETHERTYPE_IPV6, IPV6_LEN, NH_IPV6, UDP_LEN};
use crate::layer3::{L3, v6_dst};
use crate::packet::{L4_LEN, bth_of};
use crate::{
    AethRepr, Extension, MethRepr, Opcode, PacketHead, Qpn, RethRepr, SackRepr, TsethRepr, WireConfig, WriteHeaders,
    bth, icrc,
};
use core::ops::Range;

const SACK: u8 = Opcode::Sack.to_u8();
const ACK: u8 = Opcode::Ack.to_u8();

/// A frame whose headers are where those of a plain one are, as its ethertype and the next header of its first IPv6 header say.
/// Nothing else was looked at.
#[derive(Clone, Copy, Debug)]
pub struct PlainFrame<'a> {
    pub(crate) outermost: &'a [u8; IPV6_LEN],
    pub(crate) ip: &'a [u8; IPV6_LEN],
    pub(crate) l4: &'a [u8; L4_LEN],
    /// What follows BTH.
    pub(crate) rest: &'a [u8],
    pub(crate) l3_offset: usize,
}

impl<'a> PlainFrame<'a> {
    /// Finds the headers in `head`, which begins with the Ethernet header. `None` where they cannot be.
    //= ETH-001
    #[inline(always)]
    #[must_use]
    pub fn find(head: &'a [u8]) -> Option<Self> {
        let first: &[u8; ETH_LEN + IPV6_LEN] = head.first_chunk()?;
        // Ethertype and version together.
        if u32_at::<{ ETH_LEN - 2 }, _>(first) >> 12 != u32::from(ETHERTYPE_IPV6) << 4 | 6 {
            return None;
        }
        let outermost = chunk_at::<ETH_LEN, IPV6_LEN, _>(first)?;
        let l3_offset = if outermost[6] == NH_IPV6 { ETH_LEN + IPV6_LEN } else { ETH_LEN };
        let (headers, rest) = head.get(l3_offset..)?.split_first_chunk::<{ IPV6_LEN + L4_LEN }>()?;
        let (ip, l4) = (chunk_at::<0, IPV6_LEN, _>(headers)?, chunk_at::<IPV6_LEN, L4_LEN, _>(headers)?);
        Some(Self { outermost, ip, l4, rest, l3_offset })
    }

    /// Destination QP.
    #[inline(always)]
    #[must_use]
    pub const fn dest_qp(&self) -> Qpn {
        bth::dest_qp(bth_of(self.l4))
    }

    /// Destination of the outermost IP header.
    #[inline(always)]
    #[must_use]
    pub fn outermost_dst(&self) -> [u8; 16] {
        v6_dst(self.outermost)
    }

    /// What follows BTH.
    #[inline(always)]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The packet, if its layers and lengths are those of a plain one; arguments as in [`PacketView::parse`](crate::PacketView::parse). `None` for any
    /// other kind, and where lengths do not agree. It is right if it has a [`HeadImage`](crate::HeadImage) that fits; the caller also asks whether
    /// [`Self::outermost_dst`] is one of its own (step 2) and goes on with step 10.
    //= VAL-001, VAL-002, VAL-006, UDP-002, UDP-003, UDP-004, HOST-001
    #[inline(always)]
    #[must_use]
    pub fn packet(&self, wire_len: usize, cfg: &WireConfig) -> Option<PacketHead<'a>> {
        let &Self { outermost, ip, l4, l3_offset, .. } = self;
        let udp_len = u16_at::<4, _>(l4);
        // Layers that carry nothing besides have lengths that agree.
        let beside =
            usize::from(u16_at::<4, _>(outermost)) != l3_offset.wrapping_sub(ETH_LEN).wrapping_add(udp_len.into());
        let icrc_offset = l3_offset.wrapping_add(IPV6_LEN - icrc::LEN).wrapping_add(udp_len.into());
        if beside || u16_at::<4, _>(ip) != udp_len || icrc_offset.wrapping_add(icrc::LEN) > wire_len {
            return None;
        }
        let dscp = (u16_at::<0, _>(outermost) >> 6) as u8 & 0x3F;
        if cfg.dscp.trim(dscp).is_some() {
            return None;
        }
        Some(PacketHead { l3: L3::V6 { outermost, ip }, l4, l3_offset, icrc_offset })
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

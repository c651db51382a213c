//! The commonest frames by far, read where they lie with every field at a known place: writes without immediate, SACKs and
//! Transport ACKs, in IPv6 or in IPv6 in IPv6, without VLAN tag, routing header or trimming. [`PlainPacket::find`] looks at what differs from
//! packet to packet; that the rest is right is one comparison with the head of a packet that was read in full before
//! ([`HeadImage`]). What passes both passes [`PacketView::parse`](crate::PacketView::parse), too, and reads alike
//! (`tests/properties.rs` holds them together). All else has to go there, to be read or to learn what is wrong with it.

use crate::bytes::{chunk_at, u16_at, u32_at};
use crate::ip::{ETH_LEN, ETHERTYPE_IPV6, IPV6_LEN, NH_IPV6, UDP_LEN};
use crate::packet;
use crate::{
    AethRepr, BthRepr, Ev, MethRepr, Opcode, Psn, Qpn, RethRepr, SackRepr, TsethRepr, WireConfig, bth, ev, icrc,
};
use core::ops::Range;

/// Offsets from the IPv6 header that carries UDP.
const UDP: usize = IPV6_LEN;
const BTH: usize = UDP + UDP_LEN;
const EXT: usize = BTH + BthRepr::LEN;
/// Ethernet and the outermost IPv6 header.
const OUTERMOST: usize = ETH_LEN + IPV6_LEN;

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

    /// Reads it; the number means nothing.
    #[must_use]
    pub const fn fetch(&self) -> u32 {
        let [first, .., last] = self.0;
        (first ^ last) as u32
    }

    /// The head of `packet`, which [`PacketView::parse`](crate::PacketView::parse) has read, and whose addresses, partition and
    /// destination QP were found right.
    #[must_use]
    pub fn of(packet: &PlainPacket<'_>) -> Self {
        let mut words = packet.words();
        for (word, fixed) in words.iter_mut().zip(FIXED) {
            *word &= fixed;
        }
        Self(words)
    }

    /// Whether `packet` has this head: then all that is the same in both was found right before.
    //= VAL-004, VAL-005, VAL-007, VAL-008, VAL-011, VAL-012, VAL-013
    #[inline(always)]
    #[must_use]
    pub fn fits(&self, packet: &PlainPacket<'_>) -> bool {
        let differ = self.0.iter().zip(packet.words()).zip(FIXED);
        differ.fold(0, |bits, ((ours, theirs), fixed)| bits | (ours ^ theirs) & fixed) == 0
    }
}

/// A packet whose lengths and layers are those of a plain one, if it has a [`HeadImage`] that fits and is a write, a SACK or an ACK. The caller
/// also asks whether [`PlainPacket::outermost_dst`] is one of its own (step 2) and goes on with step 10.
#[derive(Clone, Copy, Debug)]
pub struct PlainPacket<'a> {
    outermost: &'a [u8; OUTERMOST],
    /// The IPv6 header that carries UDP, UDP and BTH.
    headers: &'a [u8; EXT],
    /// What follows, as far as given.
    rest: &'a [u8],
    l3_offset: usize,
    /// The first byte after payload and pad.
    end: usize,
}

impl<'a> PlainPacket<'a> {
    /// Looks at a frame; arguments as in [`PacketView::parse`](crate::PacketView::parse). `None` for any other kind, and where
    /// lengths do not agree.
    //= ETH-001, VAL-001, VAL-002, VAL-006, UDP-002, UDP-003, UDP-004, HOST-001
    #[inline(always)]
    #[must_use]
    pub fn find(head: &'a [u8], wire_len: usize, cfg: &WireConfig) -> Option<Self> {
        let outermost: &[u8; OUTERMOST] = head.first_chunk()?;
        // Ethertype and version together.
        if u32_at::<{ ETH_LEN - 2 }, _>(outermost) >> 12 != u32::from(ETHERTYPE_IPV6) << 4 | 6 {
            return None;
        }
        let tunnel = if outermost[ETH_LEN + 6] == NH_IPV6 { IPV6_LEN } else { 0 };
        let l3_offset = tunnel.wrapping_add(ETH_LEN);
        let from = head.get(l3_offset..)?;
        let (headers, rest) = from.split_first_chunk::<EXT>()?;
        let udp_len = u16_at::<{ UDP + 4 }, _>(headers);
        // Layers that carry nothing besides have lengths that agree.
        let beside = usize::from(u16_at::<{ ETH_LEN + 4 }, _>(outermost)) != tunnel.wrapping_add(udp_len.into());
        let end = l3_offset.wrapping_add(UDP - icrc::LEN).wrapping_add(udp_len.into());
        if beside || u16_at::<4, _>(headers) != udp_len || end.wrapping_add(icrc::LEN) > wire_len {
            return None;
        }
        let dscp = (u16_at::<ETH_LEN, _>(outermost) >> 6) as u8 & 0x3F;
        if cfg.dscp.trim(dscp).is_some() {
            return None;
        }
        Some(Self { outermost, headers, rest, l3_offset, end })
    }

    /// Of a write without immediate: RETH, and the payload without its pad, which may lie beyond the bytes given as `head`. `None`
    /// for any other packet, and for one that is too short.
    //= VAL-009
    #[inline(always)]
    #[must_use]
    pub fn write(&self) -> Option<(&'a [u8; RethRepr::LEN], Range<usize>)> {
        let at = MethRepr::LEN.wrapping_add(if self.is_stamped() { TsethRepr::LEN } else { 0 });
        let reth = self.rest.get(at..)?.first_chunk()?;
        let payload = self.behind(at.wrapping_add(RethRepr::LEN))?;
        is_write(self.headers[BTH]).then_some((reth, payload))
    }

    /// The same of a selective acknowledgement.
    //= VAL-009
    #[inline(always)]
    #[must_use]
    pub fn sack(&self) -> Option<&'a [u8; SackRepr::LEN]> {
        self.behind(SackRepr::LEN)?;
        if self.headers[BTH] == SACK { self.rest.first_chunk() } else { None }
    }

    /// The same of a Transport ACK or NAK.
    //= VAL-009
    #[inline(always)]
    #[must_use]
    pub fn ack(&self) -> Option<&'a [u8; AethRepr::LEN]> {
        self.behind(AethRepr::LEN)?;
        if self.headers[BTH] == ACK { self.rest.first_chunk() } else { None }
    }

    /// What follows an extension of `len` bytes, without the pad.
    #[inline(always)]
    fn behind(&self, len: usize) -> Option<Range<usize>> {
        let payload = self.l3_offset.wrapping_add(EXT).wrapping_add(len)..self.end.wrapping_sub(self.pad().into());
        (payload.start <= payload.end).then_some(payload)
    }

    /// Whether a write carries its send time.
    #[inline(always)]
    fn is_stamped(&self) -> bool {
        bth::timestamped(self.bth())
    }

    /// A write's send time. Check `is_timestamp` or use `reflected`.
    #[inline(always)]
    #[must_use]
    pub fn tseth(&self) -> Option<TsethRepr> {
        let stamp = self.rest.get(MethRepr::LEN..)?.first_chunk()?;
        self.is_stamped().then(|| TsethRepr::parse(stamp))
    }

    #[inline(always)]
    fn words(&self) -> [u64; WORDS] {
        let from = self.headers;
        [
            word_at::<0, _>(from),
            word_at::<8, _>(from),
            word_at::<16, _>(from),
            word_at::<24, _>(from),
            word_at::<32, _>(from),
            word_at::<40, _>(from),
            word_at::<48, _>(from),
        ]
    }

    /// Destination of the outermost IP header.
    #[inline(always)]
    #[must_use]
    pub fn outermost_dst(&self) -> &'a [u8; 16] {
        field::<{ ETH_LEN + 24 }, 16, _>(self.outermost)
    }

    /// Source of the IP header that carries UDP.
    #[must_use]
    pub fn src(&self) -> &'a [u8; 16] {
        field::<8, 16, _>(self.headers)
    }

    /// Destination of the IP header that carries UDP.
    #[must_use]
    pub fn dst(&self) -> &'a [u8; 16] {
        field::<24, 16, _>(self.headers)
    }

    /// Congestion experienced, in either header.
    #[inline(always)]
    #[must_use]
    pub fn ce(&self) -> bool {
        //= IP6-004
        // Without an outer header both are one.
        packet::ce(self.headers[1] >> 4) || packet::ce(self.outermost[ETH_LEN + 1] >> 4)
    }

    /// The EV to echo.
    #[inline(always)]
    #[must_use]
    pub const fn entropy(&self, cfg: &WireConfig) -> Ev {
        //= EVW-004, IP6-005
        ev::echo(u16_at::<2, _>(self.headers) as u32, u16_at::<UDP, _>(self.headers), true, cfg.ev_high_half_in_sport)
    }

    /// UDP length field.
    #[inline(always)]
    #[must_use]
    pub const fn udp_len(&self) -> u16 {
        u16_at::<{ UDP + 4 }, _>(self.headers)
    }

    #[inline(always)]
    fn bth(&self) -> &'a [u8; BthRepr::LEN] {
        bth_of(self.headers)
    }

    /// Destination QP.
    #[inline(always)]
    #[must_use]
    pub fn dest_qp(&self) -> Qpn {
        bth::dest_qp(self.bth())
    }

    /// Partition key.
    #[must_use]
    pub fn pkey(&self) -> u16 {
        u16_at::<2, _>(self.bth())
    }

    /// Packet sequence number.
    #[inline(always)]
    #[must_use]
    pub fn psn(&self) -> Psn {
        bth::psn(self.bth())
    }

    /// Bytes of pad behind the payload.
    #[inline(always)]
    #[must_use]
    pub fn pad(&self) -> u8 {
        bth::pad(self.bth())
    }

    /// An acknowledgement is asked for.
    #[inline(always)]
    #[must_use]
    pub fn ack_req(&self) -> bool {
        bth::ack_req(self.bth())
    }

    /// A retransmission, or the answer to one.
    #[inline(always)]
    #[must_use]
    pub fn rtx(&self) -> bool {
        bth::rtx(self.bth())
    }

    /// The IP header that carries UDP: where the ICRC starts.
    #[inline(always)]
    #[must_use]
    pub const fn l3_offset(&self) -> usize {
        self.l3_offset
    }

    /// The four ICRC bytes.
    #[inline(always)]
    #[must_use]
    pub const fn icrc_offset(&self) -> usize {
        self.end
    }

    /// Which packet of its message; never one with immediate.
    #[inline(always)]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        Opcode::from_u8(self.headers[BTH])
    }

    /// Whether it begins a message.
    #[inline(always)]
    #[must_use]
    pub const fn is_first(&self) -> bool {
        matches!(self.headers[BTH], 0xC6 | 0xCA)
    }

    /// Whether it ends a message.
    #[inline(always)]
    #[must_use]
    pub const fn ends_message(&self) -> bool {
        matches!(self.headers[BTH], 0xC8 | 0xCA)
    }
}

const SACK: u8 = Opcode::Sack.to_u8();
const ACK: u8 = Opcode::Ack.to_u8();

/// The opcodes of writes without immediate: FIRST, MIDDLE, LAST and ONLY.
#[inline(always)]
const fn is_write(opcode: u8) -> bool {
    let nth = opcode.wrapping_sub(0xC6);
    nth < 5 && nth != 3
}

/// BTH.
#[inline(always)]
fn bth_of(headers: &[u8; EXT]) -> &[u8; BthRepr::LEN] {
    field::<BTH, { BthRepr::LEN }, _>(headers)
}

/// Bytes of which the compiler knows that they are there.
#[inline(always)]
fn field<const AT: usize, const LEN: usize, const N: usize>(bytes: &[u8; N]) -> &[u8; LEN] {
    chunk_at::<AT, LEN, N>(bytes).unwrap_or(&[0; LEN])
}

/// Eight bytes as they lie in memory.
#[inline(always)]
fn word_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    u64::from_ne_bytes(*field::<AT, 8, N>(bytes))
}

//! The commonest frames by far, read where they lie with every field at a known place: writes without immediate and SACKs,
//! in IPv6 or in IPv6 in IPv6, without VLAN tag, routing header or trimming. What [`PlainPacket::read`] takes,
//! [`PacketView`](crate::PacketView) takes too and reads alike (`tests/properties.rs` holds them together); what it leaves has
//! to go there, to be read or to learn what is wrong with it.

use crate::bytes::{chunk_at, last, u16_at, u32_at};
use crate::ip::{ETH_LEN, ETHERTYPE_IPV6, IPV6_LEN, NH_IPV6, NH_UDP, UDP_LEN, UDP_LEN_MIN};
use crate::packet::{self, v6_traffic_class};
use crate::{BthRepr, Ev, MethRepr, Opcode, Psn, Qpn, RethRepr, SackRepr, TsethRepr, WireConfig, bth, ev, icrc};
use core::ops::Range;

/// Offsets from the IPv6 header that carries UDP.
pub(crate) const UDP: usize = IPV6_LEN;
pub(crate) const BTH: usize = UDP + UDP_LEN;
/// Headers from there on that all packets have.
pub(crate) const HEADERS: usize = BTH + BthRepr::LEN;
const WRITE: usize = MethRepr::LEN + RethRepr::LEN;
const STAMPED_WRITE: usize = WRITE + TsethRepr::LEN;

/// A packet that passed steps 1 and 3 to 9 of the validation order. The caller asks whether
/// [`PlainPacket::outermost_dst`] is one of its own (step 2) and goes on with step 10.
#[derive(Clone, Copy, Debug)]
pub struct PlainPacket<'a> {
    pub(crate) outermost: &'a [u8; IPV6_LEN],
    pub(crate) headers: &'a [u8; HEADERS],
    pub(crate) l3_offset: usize,
    pub(crate) extension: PlainExtension<'a>,
}

/// What follows BTH.
#[derive(Clone, Copy, Debug)]
pub enum PlainExtension<'a> {
    /// A write without immediate.
    Write(PlainWrite<'a>),
    /// A selective acknowledgement.
    Sack(&'a [u8; SackRepr::LEN]),
}

/// The headers of a write after BTH, and where its payload is.
#[derive(Clone, Copy, Debug)]
pub struct PlainWrite<'a> {
    pub(crate) opcode: Opcode,
    pub(crate) tseth: Option<&'a [u8; TsethRepr::LEN]>,
    pub(crate) reth: &'a [u8; RethRepr::LEN],
    pub(crate) payload: usize,
    pub(crate) pad: usize,
    /// First byte after payload and pad.
    pub(crate) end: usize,
}

impl<'a> PlainPacket<'a> {
    /// Reads a frame; arguments as in [`PacketView::parse`](crate::PacketView::parse). `None` when it is anything else, or
    /// if anything at all is wrong with it.
    //= ETH-001, VAL-001, VAL-002, VAL-004, VAL-005, VAL-006, VAL-007, VAL-009, UDP-002, UDP-003, UDP-004, HOST-001
    #[inline(always)]
    #[must_use]
    pub fn read(head: &'a [u8], wire_len: usize, cfg: &WireConfig) -> Option<Self> {
        let start: &[u8; ETH_LEN + HEADERS] = head.first_chunk()?;
        // Ethertype and version together.
        if u32_at::<{ ETH_LEN - 2 }, _>(start) >> 12 != u32::from(ETHERTYPE_IPV6) << 4 | 6 {
            return None;
        }
        let first: &[u8; HEADERS] = last(start)?;
        let outermost: &[u8; IPV6_LEN] = first.first_chunk()?;
        let outermost_len = usize::from(u16_at::<4, _>(outermost));
        let (l3_offset, headers) = if outermost[6] == NH_IPV6 {
            let start: &[u8; ETH_LEN + IPV6_LEN + HEADERS] = head.first_chunk()?;
            let headers: &[u8; HEADERS] = last(start)?;
            if headers[0] >> 4 != 6 || usize::from(u16_at::<4, _>(headers)).wrapping_add(IPV6_LEN) > outermost_len {
                return None;
            }
            (ETH_LEN + IPV6_LEN, headers)
        } else {
            (ETH_LEN, first)
        };
        let trimmed = cfg.dscp.trim(v6_traffic_class(outermost) >> 2).is_some();
        if trimmed || outermost_len.wrapping_add(ETH_LEN + IPV6_LEN) > wire_len || headers[6] != NH_UDP {
            return None;
        }
        let (dport, udp_len) = (u16_at::<{ UDP + 2 }, _>(headers), u16_at::<{ UDP + 4 }, _>(headers));
        if dport != cfg.udp_dport_accept[0] && dport != cfg.udp_dport_accept[1] {
            return None;
        }
        if udp_len < UDP_LEN_MIN || udp_len > u16_at::<4, _>(headers) {
            return None;
        }
        let bth: &[u8; BthRepr::LEN] = last(headers)?;
        let (at, pad) = (l3_offset.wrapping_add(HEADERS), usize::from(bth::pad(bth)));
        let rest = head.get(at..)?;
        let after_ext = |ext: usize| {
            let left = usize::from(udp_len).checked_sub(ext.wrapping_add(UDP_LEN + BthRepr::LEN + icrc::LEN))?;
            if pad <= left && bth::version(bth) == 0 { Some(left) } else { None }
        };
        let opcode = match bth[0] {
            0xC6 => Opcode::WriteFirst,
            0xC7 => Opcode::WriteMiddle,
            0xC8 => Opcode::WriteLast,
            0xCA => Opcode::WriteOnly,
            0xDC => Opcode::Sack,
            _ => return None,
        };
        if opcode == Opcode::Sack {
            after_ext(SackRepr::LEN)?;
            let extension = PlainExtension::Sack(rest.first_chunk()?);
            return Some(Self { outermost, headers, l3_offset, extension });
        }
        let (ext, tseth, reth) = if bth::timestamped(bth) {
            let ext: &[u8; STAMPED_WRITE] = rest.first_chunk()?;
            let (_, stamped) = ext.split_first_chunk::<{ MethRepr::LEN }>()?;
            (STAMPED_WRITE, stamped.first_chunk(), last(ext)?)
        } else {
            let ext: &[u8; WRITE] = rest.first_chunk()?;
            (WRITE, None, last(ext)?)
        };
        let payload = at.wrapping_add(ext);
        let write = PlainWrite { opcode, tseth, reth, payload, pad, end: payload.wrapping_add(after_ext(ext)?) };
        Some(Self { outermost, headers, l3_offset, extension: PlainExtension::Write(write) })
    }

    /// Destination of the outermost IP header.
    #[inline(always)]
    #[must_use]
    pub fn outermost_dst(&self) -> &'a [u8; 16] {
        last(self.outermost).unwrap_or(&[0; 16])
    }

    /// Source of the IP header that carries UDP.
    #[inline(always)]
    #[must_use]
    pub fn src(&self) -> &'a [u8; 16] {
        chunk_at::<8, 16, _>(self.headers).unwrap_or(&[0; 16])
    }

    /// Destination of the IP header that carries UDP.
    #[inline(always)]
    #[must_use]
    pub fn dst(&self) -> &'a [u8; 16] {
        chunk_at::<24, 16, _>(self.headers).unwrap_or(&[0; 16])
    }

    /// Congestion experienced, in either header.
    #[inline(always)]
    #[must_use]
    pub fn ce(&self) -> bool {
        //= IP6-004
        // Without an outer header both are one.
        let inner: &[u8; IPV6_LEN] = self.headers.first_chunk().unwrap_or(self.outermost);
        packet::ce(v6_traffic_class(inner)) || packet::ce(v6_traffic_class(self.outermost))
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
        last(self.headers).unwrap_or(&[0; BthRepr::LEN])
    }

    /// Destination QP.
    #[inline(always)]
    #[must_use]
    pub fn dest_qp(&self) -> Qpn {
        bth::dest_qp(self.bth())
    }

    /// Partition key.
    #[inline(always)]
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
        self.l3_offset.wrapping_add(UDP - icrc::LEN).wrapping_add(self.udp_len() as usize)
    }

    /// What follows BTH.
    #[inline(always)]
    #[must_use]
    pub const fn extension(&self) -> &PlainExtension<'a> {
        &self.extension
    }
}

impl PlainWrite<'_> {
    /// Which packet of its message; never one with immediate.
    #[inline(always)]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Present exactly when `ts` is set in BTH. Check `is_timestamp` or use `reflected`.
    #[inline(always)]
    #[must_use]
    pub fn tseth(&self) -> Option<TsethRepr> {
        self.tseth.map(TsethRepr::parse)
    }

    /// Placement.
    #[inline(always)]
    #[must_use]
    pub const fn reth(&self) -> RethRepr {
        RethRepr::parse(self.reth)
    }

    /// The payload without its pad. May lie beyond the bytes given as `head`.
    #[inline(always)]
    #[must_use]
    pub const fn payload(&self) -> Range<usize> {
        self.payload..self.end.saturating_sub(self.pad)
    }
}

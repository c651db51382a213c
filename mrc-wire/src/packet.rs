//! Received frames where they lie: steps 1 to 9 of the validation order, wire.md section 14. A [`PacketView`] is a few
//! references into the frame; each field is read from its bytes when it is asked for, because an engine needs few of
//! them. The same with every field read is a [`Frame`](crate::Frame).
//!
//! Not owned: the ICRC itself (step 10, [`crate::icrc::verify`]) and everything that needs a QP (steps 11 to 18).

use crate::body::{IMM_LEN, ext_len};
use crate::bytes::{chunk_at, u16_at};
use crate::ip::{NH_UDP, UDP_LEN, UDP_LEN_MIN};
use crate::layer3::{L3, layer3, v6_dst, v6_src};
use crate::{
    AethRepr, Body, BthRepr, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev, Frame, Ip, MethRepr, NackRepr,
    Opcode, ProbeRepr, Psn, Qpn, Reject, RethRepr, SackRepr, Trim, TsethRepr, WireConfig, bth, ev, icrc,
};
use core::ops::{Deref, Range};

/// A received frame up to BTH, unread. Offsets count from the Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead<'a> {
    pub(crate) l3: L3<'a>,
    /// UDP and BTH.
    pub(crate) l4: &'a [u8; L4_LEN],
    pub(crate) l3_offset: usize,
    /// The first byte after payload and pad.
    pub(crate) icrc_offset: usize,
}

/// UDP and BTH together.
pub(crate) const L4_LEN: usize = UDP_LEN + BthRepr::LEN;

#[inline(always)]
pub(crate) const fn bth_of(l4: &[u8; L4_LEN]) -> &[u8; BthRepr::LEN] {
    match chunk_at::<UDP_LEN, { BthRepr::LEN }, _>(l4) {
        Some(bth) => bth,
        None => &[0; BthRepr::LEN],
    }
}

/// A frame that passed steps 1 to 9, unread.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    pub(crate) head: PacketHead<'a>,
    pub(crate) extension: Extension<'a>,
    pub(crate) payload_offset: usize,
}

impl<'a> Deref for PacketView<'a> {
    type Target = PacketHead<'a>;

    #[inline(always)]
    fn deref(&self) -> &PacketHead<'a> {
        &self.head
    }
}

/// What follows BTH, unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension<'a> {
    /// The six write opcodes.
    Write(WriteHeaders<'a>),
    /// Transport ACK or NAK.
    Ack(&'a [u8; AethRepr::LEN]),
    /// Selective acknowledgement.
    Sack(&'a [u8; SackRepr::LEN]),
    /// Refusal.
    Nack(&'a [u8; NackRepr::LEN]),
    /// Reliability probe.
    Probe(&'a [u8; ProbeRepr::LEN]),
    /// Endpoint request.
    EndpointRequest(EndpointOp, &'a [u8; EndpointRequestRepr::LEN]),
    /// Endpoint response.
    EndpointResponse(EndpointOp, &'a [u8; EndpointResponseRepr::LEN]),
    /// A write that a switch cut; its lengths mean nothing and it carries no ICRC.
    Trimmed {
        /// Where it was cut.
        kind: Trim,
        /// Timestamp to reflect, 0 when it was cut off or never there.
        timestamp: u16,
        /// The unit of the timestamp is private to the sender.
        tsr: bool,
    },
}

/// The headers of a write after BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteHeaders<'a> {
    meth: &'a [u8; MethRepr::LEN],
    tseth: Option<&'a [u8; TsethRepr::LEN]>,
    pub(crate) reth: &'a [u8; RethRepr::LEN],
    imm: Option<&'a [u8; IMM_LEN]>,
}

impl<'a> WriteHeaders<'a> {
    /// Of the bytes after BTH.
    //= BTH-009, OPC-002
    #[inline(always)]
    pub(crate) fn split(ts: bool, imm: bool, bytes: &'a [u8]) -> Option<Self> {
        const STAMP: usize = MethRepr::LEN;
        let (tseth, (meth, reth), rest) = if ts {
            let (all, rest) = bytes.split_first_chunk::<{ STAMP + TsethRepr::LEN + RethRepr::LEN }>()?;
            let reth = chunk_at::<{ STAMP + TsethRepr::LEN }, { RethRepr::LEN }, _>(all)?;
            (chunk_at::<STAMP, { TsethRepr::LEN }, _>(all), (all.first_chunk()?, reth), rest)
        } else {
            let (all, rest) = bytes.split_first_chunk::<{ STAMP + RethRepr::LEN }>()?;
            (None, (all.first_chunk()?, chunk_at::<STAMP, { RethRepr::LEN }, _>(all)?), rest)
        };
        //= IMM-001
        let imm = if imm { Some(rest.first_chunk()?) } else { None };
        Some(Self { meth, tseth, reth, imm })
    }

    /// Message numbers.
    #[inline(always)]
    #[must_use]
    pub const fn meth(&self) -> MethRepr {
        MethRepr::parse(self.meth)
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

    /// Present in the two opcodes with immediate.
    #[inline(always)]
    #[must_use]
    pub fn imm(&self) -> Option<u32> {
        self.imm.map(|imm| u32::from_be_bytes(*imm))
    }
}

impl PacketHead<'_> {
    /// The IP header that carries UDP: where the ICRC starts.
    #[inline(always)]
    #[must_use]
    pub const fn l3_offset(&self) -> usize {
        self.l3_offset
    }

    /// The four ICRC bytes; the end of the frame when it is trimmed.
    #[inline(always)]
    #[must_use]
    pub const fn icrc_offset(&self) -> usize {
        self.icrc_offset
    }

    /// Source of the IP header that carries UDP.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ip {
        match self.l3 {
            L3::V6 { ip, .. } => Ip::V6(v6_src(ip)),
            L3::V4(ip) => Ip::V4([ip[12], ip[13], ip[14], ip[15]]),
        }
    }

    /// Destination of the IP header that carries UDP.
    #[inline(always)]
    #[must_use]
    pub fn dst(&self) -> Ip {
        match self.l3 {
            L3::V6 { ip, .. } => Ip::V6(v6_dst(ip)),
            L3::V4(_) => self.outermost_dst(),
        }
    }

    /// Destination of the outer header under SRv6.
    #[inline]
    #[must_use]
    pub fn outer_dst(&self) -> Option<[u8; 16]> {
        match self.l3 {
            L3::V6 { outermost, ip } if !core::ptr::eq(outermost, ip) => Some(v6_dst(outermost)),
            _ => None,
        }
    }

    /// Destination of the outermost IP header.
    #[inline(always)]
    #[must_use]
    pub fn outermost_dst(&self) -> Ip {
        self.l3.outermost_dst()
    }

    /// Effective code point: the outer one under SRv6.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        //= SRV6-006
        self.l3.outermost_traffic_class() >> 2
    }

    /// Congestion experienced, in either header.
    #[inline(always)]
    #[must_use]
    pub fn ce(&self) -> bool {
        //= IP6-004
        // Without an outer header both are one.
        match self.l3 {
            L3::V6 { outermost, ip } => ce(ip[1] >> 4) || ce(outermost[1] >> 4),
            L3::V4(ip) => ce(ip[1]),
        }
    }

    /// The EV to echo.
    #[inline(always)]
    #[must_use]
    pub fn entropy(&self, cfg: &WireConfig) -> Ev {
        let sport = u16_at::<0, _>(self.l4);
        match self.l3 {
            //= EVW-004, IP6-005
            L3::V6 { ip, .. } => ev::echo(u32::from(u16_at::<2, _>(ip)), sport, true, cfg.ev_high_half_in_sport),
            //= IP4-003
            L3::V4(_) => ev::echo(0, sport, false, cfg.ev_high_half_in_sport),
        }
    }

    /// UDP length field; of no meaning when trimmed.
    #[inline(always)]
    #[must_use]
    pub const fn udp_len(&self) -> u16 {
        u16_at::<4, _>(self.l4)
    }

    /// The opcode, never an unknown one.
    #[inline(always)]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        Opcode::from_u8(self.l4[UDP_LEN])
    }

    /// Transport header.
    #[inline]
    #[must_use]
    pub const fn bth(&self, cfg: &WireConfig) -> BthRepr {
        BthRepr::read(bth_of(self.l4), self.opcode(), cfg.bth_se_bit)
    }

    /// Destination QP.
    #[inline(always)]
    #[must_use]
    pub const fn dest_qp(&self) -> Qpn {
        bth::dest_qp(bth_of(self.l4))
    }

    /// Packet sequence number.
    #[inline(always)]
    #[must_use]
    pub const fn psn(&self) -> Psn {
        bth::psn(bth_of(self.l4))
    }

    /// Whether a write begins a message.
    #[inline(always)]
    #[must_use]
    pub const fn begins_message(&self) -> bool {
        // The bytes of MIDDLE, LAST and LAST with immediate: a match over the table of opcodes takes ten times as long.
        !matches!(self.l4[UDP_LEN], 0xC7..=0xC9)
    }

    /// Whether a write ends a message.
    #[inline(always)]
    #[must_use]
    pub const fn ends_message(&self) -> bool {
        // LAST and ONLY, with immediate or without: 0xC8 to 0xCB. FIRST and MIDDLE are 0xC6 and 0xC7.
        self.l4[UDP_LEN] & 8 != 0
    }

    /// Bytes of pad behind the payload.
    #[inline(always)]
    #[must_use]
    pub const fn pad(&self) -> u8 {
        bth::pad(bth_of(self.l4))
    }

    /// An acknowledgement is asked for.
    #[inline(always)]
    #[must_use]
    pub const fn ack_req(&self) -> bool {
        bth::ack_req(bth_of(self.l4))
    }

    /// A retransmission, or the answer to one.
    #[inline(always)]
    #[must_use]
    pub const fn rtx(&self) -> bool {
        bth::rtx(bth_of(self.l4))
    }
}

impl<'a> PacketView<'a> {
    /// Reads a frame up to the payload: steps 1 to 9, the first failure decides.
    ///
    /// `head` holds the frame from its Ethernet header on; its beginning through the last extension header is enough.
    /// `wire_len` is the length of the whole frame. `is_local` says whether the destination of the outermost IP header
    /// is one of ours (address or SRv6 SID).
    ///
    /// A trimmed write comes back as [`Body::Trimmed`], all other trimmed packets are refused. No byte of the payload is
    /// read.
    ///
    /// # Errors
    /// The step that refused it; nothing may be sent in answer.
    #[inline(always)]
    pub fn parse(
        head: &'a [u8],
        wire_len: usize,
        cfg: &WireConfig,
        is_local: impl Fn(&Ip) -> bool,
    ) -> Result<Self, Reject> {
        //= VAL-001
        let head = head.get(..wire_len).unwrap_or(head);
        let lower = layer3(head, wire_len, is_local)?; // steps 1 and 2
        let trim = cfg.dscp.trim(lower.l3.outermost_traffic_class() >> 2);
        //= VAL-004, TRIM-002
        if trim.is_none() && !lower.fits {
            return Err(Reject::L3Len);
        }
        //= VAL-005
        if lower.protocol != NH_UDP {
            return Err(Reject::UdpBad);
        }
        let udp = lower.next.first_chunk::<UDP_LEN>().ok_or(Reject::UdpBad)?;
        let (dport, udp_len) = (u16_at::<2, _>(udp), u16_at::<4, _>(udp));
        //= UDP-002
        if dport != cfg.udp_dport_accept[0] && dport != cfg.udp_dport_accept[1] {
            return Err(Reject::UdpBad);
        }
        //= UDP-003, UDP-004
        if trim.is_none() && (udp_len < UDP_LEN_MIN || usize::from(udp_len) > lower.len) {
            return Err(Reject::UdpBad);
        }
        //= VAL-006
        let (l4, rest) = lower.next.split_first_chunk::<L4_LEN>().ok_or(Reject::Short)?;
        let bth = bth_of(l4);
        //= VAL-007
        let opcode = Opcode::from_u8(bth[0]);
        if let Opcode::Unknown(_) = opcode {
            return Err(Reject::Opcode);
        }
        if bth::version(bth) != 0 {
            return Err(Reject::Tver);
        }
        let rest_offset = lower.next_at.wrapping_add(L4_LEN);
        let (extension, payload_offset, icrc_offset) = match trim {
            Some(kind) => {
                //= TRIM-008
                if !opcode.is_write() {
                    return Err(Reject::Opcode);
                }
                //= TRIM-003
                let end = wire_len.max(rest_offset);
                let (timestamp, tsr) = trimmed_timestamp(bth::timestamped(bth), rest);
                (Extension::Trimmed { kind, timestamp, tsr }, end, end)
            }
            None => {
                let ts = bth::timestamped(bth);
                //= VAL-009
                let ext = ext_len(opcode, ts);
                let left = usize::from(udp_len)
                    .checked_sub(ext.wrapping_add(L4_LEN + icrc::LEN))
                    .filter(|left| usize::from(bth::pad(bth)) <= *left)
                    .ok_or(Reject::Short)?;
                let start = rest_offset.wrapping_add(ext);
                (Extension::split(opcode, ts, rest, cfg.eeth_op_bit)?, start, start.wrapping_add(left))
            }
        };
        let head = PacketHead { l3: lower.l3, l4, l3_offset: lower.at, icrc_offset };
        Ok(Self { head, extension, payload_offset })
    }

    /// Every field read.
    #[inline]
    #[must_use]
    pub fn to_frame(&self, cfg: &WireConfig) -> Frame {
        Frame {
            l3_offset: self.l3_offset,
            icrc_offset: self.icrc_offset,
            payload: self.payload(),
            src: self.src(),
            dst: self.dst(),
            outer_dst: self.outer_dst(),
            dscp: self.dscp(),
            ce: self.ce(),
            entropy: self.entropy(cfg),
            udp_len: self.udp_len(),
            bth: self.bth(cfg),
            body: self.body(),
        }
    }

    /// The payload without its pad; empty where there is none. May lie beyond the bytes given as `head`.
    #[inline(always)]
    #[must_use]
    pub fn payload(&self) -> Range<usize> {
        let len = match self.extension {
            Extension::Write(_) => {
                // Cannot wrap: step 9 found room for the pad.
                self.icrc_offset.wrapping_sub(self.payload_offset).wrapping_sub(self.pad().into())
            }
            _ => 0,
        };
        self.payload_offset..self.payload_offset.wrapping_add(len)
    }

    /// What follows BTH.
    #[inline(always)]
    #[must_use]
    pub const fn extension(&self) -> &Extension<'a> {
        &self.extension
    }

    /// The same, read.
    #[inline]
    #[must_use]
    pub fn body(&self) -> Body {
        match &self.extension {
            Extension::Write(write) => {
                Body::Write { meth: write.meth(), tseth: write.tseth(), reth: write.reth(), imm: write.imm() }
            }
            Extension::Ack(ack) => Body::Ack(AethRepr::parse(ack)),
            Extension::Sack(sack) => Body::Sack(SackRepr::parse(sack)),
            Extension::Nack(nack) => Body::Nack(NackRepr::parse(nack)),
            Extension::Probe(probe) => Body::Probe(ProbeRepr::parse(probe)),
            Extension::EndpointRequest(op, bytes) => Body::EndpointRequest(EndpointRequestRepr::read(*op, bytes)),
            Extension::EndpointResponse(op, bytes) => Body::EndpointResponse(EndpointResponseRepr::read(*op, bytes)),
            Extension::Trimmed { kind, timestamp, tsr } => {
                Body::Trimmed { kind: *kind, timestamp: *timestamp, tsr: *tsr }
            }
        }
    }
}

/// Splits a fixed number of bytes off the front of a shrinking slice.
#[inline]
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Reject> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(Reject::Short)?;
    *rest = tail;
    Ok(head)
}

impl<'a> Extension<'a> {
    /// The headers of `opcode` at the beginning of the bytes after BTH.
    #[inline(always)]
    fn split(opcode: Opcode, ts: bool, bytes: &'a [u8], eeth_op_bit: u8) -> Result<Self, Reject> {
        let mut rest = bytes;
        if opcode.is_write() {
            return WriteHeaders::split(ts, opcode.has_imm(), bytes).map(Self::Write).ok_or(Reject::Short);
        }
        Ok(match opcode {
            Opcode::Ack => Self::Ack(take(&mut rest)?),
            Opcode::Sack => Self::Sack(take(&mut rest)?),
            Opcode::Nack => Self::Nack(take(&mut rest)?),
            Opcode::Probe => Self::Probe(take(&mut rest)?),
            Opcode::EndpointRequest => {
                let bytes = take(&mut rest)?;
                Self::EndpointRequest(EndpointRequestRepr::operation(bytes).map_err(|_| Reject::Opcode)?, bytes)
            }
            Opcode::EndpointResponse => {
                let bytes = take(&mut rest)?;
                let op = EndpointResponseRepr::operation(bytes, eeth_op_bit).map_err(|_| Reject::Opcode)?;
                Self::EndpointResponse(op, bytes)
            }
            _ => return Err(Reject::Opcode),
        })
    }
}

/// The timestamp a cut packet still carries, and whether its unit is private.
#[cold]
fn trimmed_timestamp(ts: bool, after_bth: &[u8]) -> (u16, bool) {
    //= TRIM-004
    if !ts {
        return (0, false);
    }
    match after_bth.first_chunk::<{ MethRepr::LEN + TsethRepr::LEN }>() {
        Some(&[_, _, _, _, a, b, c, d]) => {
            let tseth = TsethRepr::parse(&[a, b, c, d]);
            (tseth.reflected(), tseth.tsr)
        }
        None => (0, false),
    }
}

#[inline]
const fn ce(traffic_class: u8) -> bool {
    traffic_class & 3 == 3
}

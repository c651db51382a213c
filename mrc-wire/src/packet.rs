//! Received frames where they lie: steps 1 to 9 of the validation order, wire.md section 14. A [`PacketView`] is a few
//! references into the frame; each field is read from its bytes when it is asked for, because an engine needs few of
//! them. The same with every field read is a [`Frame`](crate::Frame).
//!
//! Not owned: the ICRC itself (step 10, [`crate::icrc::verify`]) and everything that needs a QP (steps 11 to 18).

use crate::body::{IMM_LEN, ext_len};
use crate::ip::{IPV6_LEN, NH_UDP, UDP_LEN, UDP_LEN_MIN};
use crate::layer3::{L3, layer3, v6_dst, v6_src};
use crate::{
    AethRepr, Body, BthRepr, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev, Frame, Ip, MethRepr, NackRepr,
    Opcode, ProbeRepr, Psn, Qpn, Reject, RethRepr, SackRepr, Trim, TsethRepr, WireConfig, bth, ev, icrc,
};
use core::ops::Range;

/// A frame that passed steps 1 to 9, unread. Offsets count from the Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    l3: L3<'a>,
    outer: Option<&'a [u8; IPV6_LEN]>,
    udp: &'a [u8; UDP_LEN],
    bth: &'a [u8; BthRepr::LEN],
    opcode: Opcode,
    extension: Extension<'a>,
    l3_offset: usize,
    payload_offset: usize,
    icrc_offset: usize,
}

/// What follows BTH, unread.
#[derive(Clone, Copy, Debug)]
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
    },
}

/// The headers of a write after BTH.
#[derive(Clone, Copy, Debug)]
pub struct WriteHeaders<'a> {
    meth: &'a [u8; MethRepr::LEN],
    tseth: Option<&'a [u8; TsethRepr::LEN]>,
    reth: &'a [u8; RethRepr::LEN],
    imm: Option<&'a [u8; IMM_LEN]>,
}

impl WriteHeaders<'_> {
    /// Message numbers.
    #[inline]
    #[must_use]
    pub const fn meth(&self) -> MethRepr {
        MethRepr::parse(self.meth)
    }

    /// Present exactly when `ts` is set in BTH. Check `is_timestamp` or use `reflected`.
    #[inline]
    #[must_use]
    pub fn tseth(&self) -> Option<TsethRepr> {
        self.tseth.map(TsethRepr::parse)
    }

    /// Placement.
    #[inline]
    #[must_use]
    pub const fn reth(&self) -> RethRepr {
        RethRepr::parse(self.reth)
    }

    /// Present in the two opcodes with immediate.
    #[inline]
    #[must_use]
    pub fn imm(&self) -> Option<u32> {
        self.imm.map(|imm| u32::from_be_bytes(*imm))
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
        let trim = cfg.dscp.trim(dscp(&lower.l3, lower.outer));
        //= VAL-004, TRIM-002
        if trim.is_none() && !lower.fits {
            return Err(Reject::L3Len);
        }
        //= VAL-005
        if lower.protocol != NH_UDP {
            return Err(Reject::UdpBad);
        }
        let (udp, rest) = lower.next.split_first_chunk::<UDP_LEN>().ok_or(Reject::UdpBad)?;
        let dport = u16::from_be_bytes([udp[2], udp[3]]);
        let udp_len = u16::from_be_bytes([udp[4], udp[5]]);
        //= UDP-002
        if dport != cfg.udp_dport_accept[0] && dport != cfg.udp_dport_accept[1] {
            return Err(Reject::UdpBad);
        }
        //= UDP-003, UDP-004
        if trim.is_none() && (udp_len < UDP_LEN_MIN || usize::from(udp_len) > lower.len) {
            return Err(Reject::UdpBad);
        }
        //= VAL-006
        let (bth, rest) = rest.split_first_chunk::<{ BthRepr::LEN }>().ok_or(Reject::Short)?;
        //= VAL-007
        let opcode = Opcode::from_u8(bth[0]);
        if let Opcode::Unknown(_) = opcode {
            return Err(Reject::Opcode);
        }
        if bth::version(bth) != 0 {
            return Err(Reject::Tver);
        }
        let ext_at = lower.next_at.wrapping_add(UDP_LEN + BthRepr::LEN);
        let (extension, payload_offset, icrc_offset) = match trim {
            Some(kind) => {
                //= TRIM-008
                if !opcode.is_write() {
                    return Err(Reject::Opcode);
                }
                //= TRIM-003
                let end = wire_len.max(ext_at);
                let timestamp = trimmed_timestamp(bth::timestamped(bth), rest);
                (Extension::Trimmed { kind, timestamp }, end, end)
            }
            None => {
                let ts = bth::timestamped(bth);
                //= VAL-009
                let ext = ext_len(opcode, ts);
                let left = usize::from(udp_len)
                    .checked_sub(ext.wrapping_add(UDP_LEN + BthRepr::LEN + icrc::LEN))
                    .filter(|left| usize::from(bth::pad(bth)) <= *left)
                    .ok_or(Reject::Short)?;
                let start = ext_at.wrapping_add(ext);
                (Extension::split(opcode, ts, rest, cfg.eeth_op_bit)?, start, start.wrapping_add(left))
            }
        };
        Ok(Self {
            l3: lower.l3,
            outer: lower.outer,
            udp,
            bth,
            opcode,
            extension,
            l3_offset: lower.at,
            payload_offset,
            icrc_offset,
        })
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

    /// The IP header that carries UDP: where the ICRC starts.
    #[inline]
    #[must_use]
    pub const fn l3_offset(&self) -> usize {
        self.l3_offset
    }

    /// The four ICRC bytes; the end of the frame when it is trimmed.
    #[inline]
    #[must_use]
    pub const fn icrc_offset(&self) -> usize {
        self.icrc_offset
    }

    /// The payload without its pad; empty where there is none. May lie beyond the bytes given as `head`.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Range<usize> {
        let len = match self.extension {
            Extension::Write(_) => {
                self.icrc_offset.saturating_sub(self.payload_offset).saturating_sub(usize::from(bth::pad(self.bth)))
            }
            _ => 0,
        };
        self.payload_offset..self.payload_offset.wrapping_add(len)
    }

    /// Source of the IP header that carries UDP.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ip {
        match self.l3 {
            L3::V6(ip) => Ip::V6(v6_src(ip)),
            L3::V4(ip) => Ip::V4([ip[12], ip[13], ip[14], ip[15]]),
        }
    }

    /// Destination of the IP header that carries UDP.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Ip {
        match self.l3 {
            L3::V6(ip) => Ip::V6(v6_dst(ip)),
            L3::V4(ip) => Ip::V4([ip[16], ip[17], ip[18], ip[19]]),
        }
    }

    /// Destination of the outer header under SRv6.
    #[inline]
    #[must_use]
    pub fn outer_dst(&self) -> Option<[u8; 16]> {
        self.outer.map(v6_dst)
    }

    /// Effective code point: the outer one under SRv6.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        dscp(&self.l3, self.outer)
    }

    /// Congestion experienced, in either header.
    #[inline]
    #[must_use]
    pub fn ce(&self) -> bool {
        //= IP6-004
        ce(traffic_class(&self.l3)) || self.outer.is_some_and(|outer| ce(v6_traffic_class(outer)))
    }

    /// The EV to echo.
    #[inline]
    #[must_use]
    pub fn entropy(&self, cfg: &WireConfig) -> Ev {
        let sport = u16::from_be_bytes([self.udp[0], self.udp[1]]);
        match self.l3 {
            //= EVW-004, IP6-005
            L3::V6(ip) => {
                ev::echo(u32::from(u16::from_be_bytes([ip[2], ip[3]])), sport, true, cfg.ev_high_half_in_sport)
            }
            //= IP4-003
            L3::V4(_) => ev::echo(0, sport, false, cfg.ev_high_half_in_sport),
        }
    }

    /// UDP length field; of no meaning when trimmed.
    #[inline]
    #[must_use]
    pub const fn udp_len(&self) -> u16 {
        u16::from_be_bytes([self.udp[4], self.udp[5]])
    }

    /// The opcode, never an unknown one.
    #[inline]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Transport header.
    #[inline]
    #[must_use]
    pub const fn bth(&self, cfg: &WireConfig) -> BthRepr {
        BthRepr::read(self.bth, self.opcode, cfg.bth_se_bit)
    }

    /// Destination QP.
    #[inline]
    #[must_use]
    pub const fn dest_qp(&self) -> Qpn {
        bth::dest_qp(self.bth)
    }

    /// Packet sequence number.
    #[inline]
    #[must_use]
    pub const fn psn(&self) -> Psn {
        bth::psn(self.bth)
    }

    /// What follows BTH.
    #[inline]
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
            Extension::Trimmed { kind, timestamp } => Body::Trimmed { kind: *kind, timestamp: *timestamp },
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
            let meth = take(&mut rest)?;
            //= BTH-009, OPC-002
            let tseth = if ts { Some(take(&mut rest)?) } else { None };
            let reth = take(&mut rest)?;
            //= IMM-001
            let imm = if opcode.has_imm() { Some(take(&mut rest)?) } else { None };
            return Ok(Self::Write(WriteHeaders { meth, tseth, reth, imm }));
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

/// The timestamp a cut packet still carries.
#[cold]
fn trimmed_timestamp(ts: bool, after_bth: &[u8]) -> u16 {
    //= TRIM-004
    if !ts {
        return 0;
    }
    match after_bth.first_chunk::<{ MethRepr::LEN + TsethRepr::LEN }>() {
        Some(&[_, _, _, _, a, b, c, d]) => TsethRepr::parse(&[a, b, c, d]).reflected(),
        None => 0,
    }
}

#[inline]
const fn traffic_class(l3: &L3<'_>) -> u8 {
    match l3 {
        L3::V6(ip) => v6_traffic_class(ip),
        L3::V4(ip) => ip[1],
    }
}

#[inline]
pub(crate) const fn v6_traffic_class(ip: &[u8; IPV6_LEN]) -> u8 {
    ip[0] << 4 | ip[1] >> 4
}

#[inline]
fn dscp(l3: &L3<'_>, outer: Option<&[u8; IPV6_LEN]>) -> u8 {
    //= SRV6-006
    outer.map_or_else(|| traffic_class(l3), v6_traffic_class) >> 2
}

#[inline]
pub(crate) const fn ce(traffic_class: u8) -> bool {
    traffic_class & 3 == 3
}

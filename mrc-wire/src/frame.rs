//! A received frame: the stateless part of the validation order, steps 1 to 9, in that order, and what it yields.
//! Source: `wire.md` 2, 13 and 14.

use core::ops::Range;

use crate::{
    AethRepr, BthRepr, EndpointRequestRepr, EndpointResponseRepr, Ev, MethRepr, NackRepr, Opcode, ProbeRepr, RethRepr,
    SackRepr, Trim, TsethRepr, WireConfig, WireError, ev,
    ip::{
        ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, IPV4_LEN, IPV6_LEN, Ip, NH_IPV6, NH_ROUTING, NH_UDP,
        UDP_LEN, UDP_LEN_MIN,
    },
};

/// Why a frame was refused; each variant is a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reject {
    /// Step 1: EtherType, IP version, header length or frame length.
    L3Bad,
    /// Step 2: the destination is not ours, or the routing header is not acceptable.
    L3Dst,
    /// Step 3: the IP payload is longer than the frame.
    L3Len,
    /// Step 4: not UDP, foreign port, or bad UDP length.
    UdpBad,
    /// Steps 5 and 9: a header is cut short.
    Short,
    /// Step 6: unknown opcode.
    Opcode,
    /// Step 7: transport version.
    Tver,
}

impl Reject {
    /// Name of the counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::L3Bad => "l3_bad",
            Self::L3Dst => "l3_dst",
            Self::L3Len => "l3_len",
            Self::UdpBad => "udp_bad",
            Self::Short => "short",
            Self::Opcode => "opcode",
            Self::Tver => "tver",
        }
    }
}

impl core::fmt::Display for Reject {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Reject {}

/// What follows BTH.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Body {
    /// A write packet; its payload is [`Frame::payload`].
    Write {
        /// Message numbers.
        meth: MethRepr,
        /// Timestamp, when BTH.ts is set.
        tseth: Option<TsethRepr>,
        /// Placement.
        reth: RethRepr,
        /// Immediate data, on the opcodes that have it.
        imm: Option<u32>,
    },
    /// Transport ACK or NAK.
    Ack(AethRepr),
    /// Reliability SACK.
    Sack(SackRepr),
    /// Reliability NACK.
    Nack(NackRepr),
    /// Reliability probe.
    Probe(ProbeRepr),
    /// Endpoint operation, request.
    EndpointRequest(EndpointRequestRepr),
    /// Endpoint operation, response.
    EndpointResponse(EndpointResponseRepr),
    /// A packet whose payload a switch cut off; it has no ICRC.
    Trimmed {
        /// Where it was cut.
        kind: Trim,
        /// Its timestamp, 0 if it has none or lost it.
        timestamp: u16,
    },
}

/// A parsed frame. Offsets count from the start of the Ethernet header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The IP header that directly carries UDP: the ICRC starts here.
    pub l3_offset: usize,
    /// The four ICRC bytes; the end of the frame for a trimmed packet.
    pub icrc_offset: usize,
    /// Payload without pad; empty when there is none.
    pub payload: Range<usize>,
    /// Inner source address.
    pub src: Ip,
    /// Inner destination address.
    pub dst: Ip,
    /// Outer destination, under SRv6.
    pub outer_dst: Option<[u8; 16]>,
    /// Effective code point: the outer one under SRv6.
    pub dscp: u8,
    /// Congestion was met: CE in either header.
    pub ce: bool,
    /// Entropy value to echo.
    pub entropy: Ev,
    /// UDP length field, or what it would be for a trimmed packet's remains.
    pub udp_len: u16,
    /// Base transport header.
    pub bth: BthRepr,
    /// What follows it.
    pub body: Body,
}

/// An IP header, reduced to what the steps need.
struct L3 {
    offset: usize,
    len: usize,
    src: Ip,
    dst: Ip,
    traffic_class: u8,
    flow_label: u32,
    next: u8,
    payload_len: usize,
}

fn l3(head: &[u8], offset: usize, v6: bool) -> Result<L3, Reject> {
    let rest = head.get(offset..).ok_or(Reject::L3Bad)?;
    if v6 {
        let h: &[u8; IPV6_LEN] = rest.first_chunk().ok_or(Reject::L3Bad)?;
        if h[0] >> 4 != 6 {
            return Err(Reject::L3Bad);
        }
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        src.copy_from_slice(&h[8..24]);
        dst.copy_from_slice(&h[24..40]);
        let word = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
        return Ok(L3 {
            offset,
            len: IPV6_LEN,
            src: Ip::V6(src),
            dst: Ip::V6(dst),
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xF_FFFF,
            next: h[6],
            payload_len: usize::from(u16::from_be_bytes([h[4], h[5]])),
        });
    }
    let h: &[u8; IPV4_LEN] = rest.first_chunk().ok_or(Reject::L3Bad)?;
    let len = 4 * usize::from(h[0] & 0x0F);
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    // A fragment cannot be checked, and senders set DF.
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3FFF != 0;
    if h[0] >> 4 != 4 || len < IPV4_LEN || rest.len() < len || total < len || fragment {
        return Err(Reject::L3Bad);
    }
    Ok(L3 {
        offset,
        len,
        src: Ip::V4([h[12], h[13], h[14], h[15]]),
        dst: Ip::V4([h[16], h[17], h[18], h[19]]),
        traffic_class: h[1],
        flow_label: 0,
        next: h[9],
        payload_len: total - len,
    })
}

/// Steps 1 to 9 of the validation order, stopping at the first that fails.
///
/// `head` is the frame from its Ethernet header on; it may be only the beginning of it, as long as all headers are there
/// (the first buffer of a frame in several). `wire_len` is the length of the whole frame in bytes. `is_local` says whether
/// the outermost destination address is ours.
///
/// # Errors
/// The step's reason.
pub fn parse_frame(
    head: &[u8],
    wire_len: usize,
    cfg: &WireConfig,
    is_local: impl Fn(&Ip) -> bool,
) -> Result<Frame, Reject> {
    //= VAL-001
    if head.len() > wire_len {
        return Err(Reject::L3Bad);
    }
    let outermost = ethernet(head)?;
    //= VAL-003
    if !is_local(&outermost.dst) {
        return Err(Reject::L3Dst);
    }
    let (ip, outer) = decapsulate(head, outermost)?;
    let traffic_class = outer.as_ref().map_or(ip.traffic_class, |outer| outer.traffic_class);
    let dscp = traffic_class >> 2;
    //= SRV6-006
    let ce = ip.traffic_class & 3 == 3 || traffic_class & 3 == 3;
    let trim = cfg.dscp.trim(dscp);
    //= VAL-004
    let outer_fits = outer.as_ref().is_none_or(|outer| outer.offset + outer.len + outer.payload_len <= wire_len);
    let l4 = ip.offset + ip.len;
    if trim.is_none() && (l4 + ip.payload_len > wire_len || !outer_fits) {
        return Err(Reject::L3Len);
    }
    //= VAL-005
    let udp: &[u8; UDP_LEN] = head.get(l4..).and_then(|rest| rest.first_chunk()).ok_or(Reject::UdpBad)?;
    let (sport, dport) = (u16::from_be_bytes([udp[0], udp[1]]), u16::from_be_bytes([udp[2], udp[3]]));
    let udp_len = u16::from_be_bytes([udp[4], udp[5]]);
    let fits = udp_len >= UDP_LEN_MIN && usize::from(udp_len) <= ip.payload_len;
    if ip.next != NH_UDP || !cfg.udp_dport_accept.contains(&dport) || (trim.is_none() && !fits) {
        return Err(Reject::UdpBad);
    }
    //= VAL-006
    let start = l4 + UDP_LEN;
    let (bth, _) = head.get(start..).and_then(|rest| rest.split_first_chunk()).ok_or(Reject::Short)?;
    //= VAL-007
    if matches!(Opcode::from_u8(bth[0]), Opcode::Unknown(_)) {
        return Err(Reject::Opcode);
    }
    let bth = BthRepr::parse_with(bth, cfg.bth_se_bit).map_err(|_| Reject::Tver)?;
    let (body, payload, icrc_offset) = match trim {
        Some(kind) => trimmed(head, start, wire_len, &bth, kind)?,
        None => whole(head, start, l4 + usize::from(udp_len), &bth)?,
    };
    Ok(Frame {
        l3_offset: ip.offset,
        icrc_offset,
        payload,
        entropy: ev::echo(ip.flow_label, sport, ip.src.is_v6(), cfg.ev_high_half_in_sport),
        src: ip.src,
        dst: ip.dst,
        outer_dst: outer.map(|outer| match outer.dst {
            Ip::V6(dst) => dst,
            Ip::V4(_) => [0; 16],
        }),
        dscp,
        ce,
        udp_len,
        bth,
        body,
    })
}

/// Step 1: Ethernet with at most one VLAN tag, then an IP header.
fn ethernet(head: &[u8]) -> Result<L3, Reject> {
    let eth: &[u8; ETH_LEN] = head.first_chunk().ok_or(Reject::L3Bad)?;
    let mut ethertype = u16::from_be_bytes([eth[12], eth[13]]);
    let mut offset = ETH_LEN;
    if ethertype == ETHERTYPE_VLAN {
        let tag: &[u8; 4] = head.get(ETH_LEN..).and_then(|rest| rest.first_chunk()).ok_or(Reject::L3Bad)?;
        ethertype = u16::from_be_bytes([tag[2], tag[3]]);
        offset += 4;
    }
    match ethertype {
        ETHERTYPE_IPV6 => l3(head, offset, true),
        ETHERTYPE_IPV4 => l3(head, offset, false),
        _ => Err(Reject::L3Bad),
    }
}

/// Step 2: the inner header, and the outer one if there is one.
fn decapsulate(head: &[u8], outermost: L3) -> Result<(L3, Option<L3>), Reject> {
    if !outermost.src.is_v6() {
        return Ok((outermost, None));
    }
    let mut at = outermost.offset + outermost.len;
    match outermost.next {
        NH_IPV6 => {}
        NH_ROUTING => {
            //= SRH-003
            let srh: &[u8; 24] = head.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Reject::L3Dst)?;
            if srh[0] != NH_IPV6 || srh[1] != 2 || srh[2] != 4 || srh[3] != 0 {
                return Err(Reject::L3Dst);
            }
            at += 24;
        }
        _ => return Ok((outermost, None)),
    }
    let inner = l3(head, at, true)?;
    // Exactly one inner header: a second tunnel is nobody's we know.
    if matches!(inner.next, NH_IPV6 | NH_ROUTING) {
        return Err(Reject::L3Dst);
    }
    Ok((inner, Some(outermost)))
}

type Parts = (Body, Range<usize>, usize);

/// Section 13: what a switch left of a packet. Lengths are not to be trusted, the ICRC is gone.
fn trimmed(head: &[u8], start: usize, wire_len: usize, bth: &BthRepr, kind: Trim) -> Result<Parts, Reject> {
    //= TRIM-008
    if !bth.opcode.is_write() {
        return Err(Reject::Opcode);
    }
    let stamp = head.get(start + BthRepr::LEN + MethRepr::LEN..).and_then(|rest| rest.first_chunk());
    let timestamp = match stamp {
        Some(bytes) if bth.ts => TsethRepr::parse(bytes).reflected(),
        _ => 0,
    };
    Ok((Body::Trimmed { kind, timestamp }, wire_len..wire_len, wire_len))
}

/// Step 9: the opcode's headers, pad and ICRC; `end` is the end of the UDP payload.
fn whole(head: &[u8], start: usize, end: usize, bth: &BthRepr) -> Result<Parts, Reject> {
    //= VAL-010
    let icrc_offset = end.checked_sub(crate::icrc::LEN).ok_or(Reject::Short)?;
    let limit = icrc_offset.min(head.len());
    let rest = head.get(start + BthRepr::LEN..limit).ok_or(Reject::Short)?;
    let reserved = |_: WireError| Reject::Opcode;
    let (body, rest) = match bth.opcode {
        Opcode::Ack => cut(rest, |b| Ok(Body::Ack(AethRepr::parse(b))))?,
        Opcode::Sack => cut(rest, |b| Ok(Body::Sack(SackRepr::parse(b))))?,
        Opcode::Nack => cut(rest, |b| Ok(Body::Nack(NackRepr::parse(b))))?,
        Opcode::Probe => cut(rest, |b| Ok(Body::Probe(ProbeRepr::parse(b))))?,
        Opcode::EndpointRequest => {
            cut(rest, |b| EndpointRequestRepr::parse(b).map(Body::EndpointRequest).map_err(reserved))?
        }
        Opcode::EndpointResponse => {
            cut(rest, |b| EndpointResponseRepr::parse(b).map(Body::EndpointResponse).map_err(reserved))?
        }
        _ => write(rest, bth)?,
    };
    let at = limit - rest.len();
    let pad = usize::from(bth.pad);
    let payload_and_pad = icrc_offset - at;
    if pad > payload_and_pad {
        return Err(Reject::Short);
    }
    let payload = if bth.opcode.is_write() { at..icrc_offset - pad } else { icrc_offset..icrc_offset };
    Ok((body, payload, icrc_offset))
}

fn cut<const N: usize>(
    rest: &[u8],
    f: impl FnOnce(&[u8; N]) -> Result<Body, Reject>,
) -> Result<(Body, &[u8]), Reject> {
    let (bytes, rest) = rest.split_first_chunk::<N>().ok_or(Reject::Short)?;
    Ok((f(bytes)?, rest))
}

fn write<'a>(rest: &'a [u8], bth: &BthRepr) -> Result<(Body, &'a [u8]), Reject> {
    let (bytes, mut rest) = rest.split_first_chunk().ok_or(Reject::Short)?;
    let meth = MethRepr::parse(bytes);
    let mut tseth = None;
    if bth.ts {
        let (bytes, after) = rest.split_first_chunk().ok_or(Reject::Short)?;
        tseth = Some(TsethRepr::parse(bytes));
        rest = after;
    }
    let (bytes, mut rest) = rest.split_first_chunk().ok_or(Reject::Short)?;
    let reth = RethRepr::parse(bytes);
    let mut imm = None;
    if bth.opcode.has_imm() {
        let (bytes, after) = rest.split_first_chunk::<4>().ok_or(Reject::Short)?;
        imm = Some(u32::from_be_bytes(*bytes));
        rest = after;
    }
    Ok((Body::Write { meth, tseth, reth, imm }, rest))
}

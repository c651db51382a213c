//! Received frames: steps 1 to 9 of the validation order, wire.md section 14.
//!
//! Not owned: the ICRC itself (step 10, [`crate::icrc::verify`]) and everything that needs a QP (steps 11 to 18).

use crate::body::{BodyError, ext_len};
use crate::ip::{
    ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, IPV4_LEN, IPV6_LEN, NH_IPV6, NH_ROUTING, NH_UDP, UDP_LEN,
    UDP_LEN_MIN,
};
use crate::{Body, BthRepr, Ev, Ip, MethRepr, Opcode, TsethRepr, WireConfig, ev, icrc};
use core::fmt;
use core::ops::Range;

/// Which step refused a frame. Each is a silent drop and a counter of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reject {
    /// Step 1: EtherType, IP version, IP header length, or the frame ends inside its IP header.
    L3Bad,
    /// Step 2: not for us, or a wrong chain behind the outer header.
    L3Dst,
    /// Step 3: an IP payload length beyond the received bytes.
    L3Len,
    /// Step 4: not UDP, a foreign port, or a wrong UDP length; may be offered to another consumer.
    UdpBad,
    /// Steps 5 and 9: not all bytes the headers promise.
    Short,
    /// Step 6: an opcode, or an endpoint operation, nobody knows; a trimmed packet that is no write.
    Opcode,
    /// Step 7: another transport version.
    Tver,
}

impl Reject {
    /// Every reason, in the order of the steps.
    pub const ALL: [Self; 7] =
        [Self::L3Bad, Self::L3Dst, Self::L3Len, Self::UdpBad, Self::Short, Self::Opcode, Self::Tver];

    /// The name of the counter.
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

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl core::error::Error for Reject {}

impl From<BodyError> for Reject {
    #[inline]
    fn from(e: BodyError) -> Self {
        match e {
            BodyError::Short => Self::Short,
            BodyError::Opcode => Self::Opcode,
        }
    }
}

/// A frame that passed steps 1 to 9. Offsets count from the Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The IP header that carries UDP: where the ICRC starts.
    pub l3_offset: usize,
    /// The four ICRC bytes; the end of the frame when it is trimmed.
    pub icrc_offset: usize,
    /// The payload without its pad; empty where there is none. May lie beyond the bytes given as `head`.
    pub payload: Range<usize>,
    /// Source of the IP header that carries UDP.
    pub src: Ip,
    /// Destination of the IP header that carries UDP.
    pub dst: Ip,
    /// Destination of the outer header under SRv6.
    pub outer_dst: Option<[u8; 16]>,
    /// Effective code point: the outer one under SRv6.
    pub dscp: u8,
    /// Congestion experienced, in either header.
    pub ce: bool,
    /// The EV to echo.
    pub entropy: Ev,
    /// UDP length field; of no meaning when trimmed.
    pub udp_len: u16,
    /// Transport header.
    pub bth: BthRepr,
    /// What follows it.
    pub body: Body,
}

impl Frame {
    /// The timestamp to reflect: 0 when the packet carries none.
    #[inline]
    #[must_use]
    pub const fn timestamp(&self) -> u16 {
        //= TS-003, TS-004
        match &self.body {
            Body::Write { tseth: Some(t), .. } => t.reflected(),
            Body::Probe(p) => p.tseth.reflected(),
            Body::EndpointRequest(r) => r.tseth.reflected(),
            Body::Trimmed { timestamp, .. } => *timestamp,
            Body::Write { tseth: None, .. }
            | Body::Ack(_)
            | Body::Sack(_)
            | Body::Nack(_)
            | Body::EndpointResponse(_) => 0,
        }
    }
}

/// What steps 1 and 2 found, and what step 3 needs.
struct Layer3<'a> {
    /// Offset of the IP header that carries UDP.
    at: usize,
    /// Offset of what it carries.
    next_at: usize,
    /// The bytes there, as far as given.
    next: &'a [u8],
    /// Payload bytes its length field claims.
    len: usize,
    protocol: u8,
    src: Ip,
    dst: Ip,
    outer_dst: Option<[u8; 16]>,
    dscp: u8,
    ce: bool,
    flow_label: u16,
    /// Every length field agrees with the received bytes.
    fits: bool,
}

/// The parts of an IPv6 header that are read.
struct V6 {
    len: usize,
    next_header: u8,
    dscp: u8,
    ce: bool,
    flow_label: u16,
    src: [u8; 16],
    dst: [u8; 16],
}

/// Reads a frame up to the payload: steps 1 to 9, the first failure decides.
///
/// `head` holds the frame from its Ethernet header on; its beginning through the last extension header is enough.
/// `wire_len` is the length of the whole frame. `is_local` says whether the destination of the outermost IP header is
/// one of ours (address or SRv6 SID).
///
/// A trimmed write comes back as [`Body::Trimmed`], all other trimmed packets are refused. No byte of the payload is
/// read.
///
/// # Errors
/// The step that refused it; nothing may be sent in answer.
#[inline]
pub fn parse_frame(
    head: &[u8],
    wire_len: usize,
    cfg: &WireConfig,
    is_local: impl Fn(&Ip) -> bool,
) -> Result<Frame, Reject> {
    //= VAL-001
    let head = head.get(..wire_len).unwrap_or(head);
    let l3 = layer3(head, wire_len, is_local)?; // steps 1 and 2
    let trim = cfg.dscp.trim(l3.dscp);
    //= VAL-004, TRIM-002
    if trim.is_none() && !l3.fits {
        return Err(Reject::L3Len);
    }
    //= VAL-005
    if l3.protocol != NH_UDP {
        return Err(Reject::UdpBad);
    }
    let (udp, rest) = l3.next.split_first_chunk::<UDP_LEN>().ok_or(Reject::UdpBad)?;
    let sport = u16::from_be_bytes([udp[0], udp[1]]);
    let dport = u16::from_be_bytes([udp[2], udp[3]]);
    let udp_len = u16::from_be_bytes([udp[4], udp[5]]);
    //= UDP-002
    if dport != cfg.udp_dport_accept[0] && dport != cfg.udp_dport_accept[1] {
        return Err(Reject::UdpBad);
    }
    //= UDP-003, UDP-004
    if trim.is_none() && (udp_len < UDP_LEN_MIN || usize::from(udp_len) > l3.len) {
        return Err(Reject::UdpBad);
    }
    //= VAL-006
    let (bth_bytes, rest) = rest.split_first_chunk::<{ BthRepr::LEN }>().ok_or(Reject::Short)?;
    //= VAL-007
    let opcode = Opcode::from_u8(bth_bytes[0]);
    if let Opcode::Unknown(_) = opcode {
        return Err(Reject::Opcode);
    }
    let bth = BthRepr::parse_with(bth_bytes, cfg.bth_se_bit).map_err(|_| Reject::Tver)?;

    let ext_at = l3.next_at + UDP_LEN + BthRepr::LEN;
    let (body, icrc_offset, payload) = match trim {
        Some(kind) => {
            //= TRIM-008
            if !opcode.is_write() {
                return Err(Reject::Opcode);
            }
            //= TRIM-003
            let end = wire_len.max(ext_at);
            (Body::Trimmed { kind, timestamp: trimmed_timestamp(&bth, rest) }, end, end..end)
        }
        None => {
            //= VAL-009
            let ext = ext_len(opcode, bth.ts);
            let left = usize::from(udp_len)
                .checked_sub(UDP_LEN + BthRepr::LEN + ext + icrc::LEN)
                .filter(|left| usize::from(bth.pad) <= *left)
                .ok_or(Reject::Short)?;
            let body = Body::parse(opcode, bth.ts, rest)?;
            let start = ext_at + ext;
            let unpadded = if opcode.is_write() { left.saturating_sub(usize::from(bth.pad)) } else { 0 };
            (body, start + left, start..start + unpadded)
        }
    };
    Ok(Frame {
        l3_offset: l3.at,
        icrc_offset,
        payload,
        src: l3.src,
        dst: l3.dst,
        outer_dst: l3.outer_dst,
        dscp: l3.dscp,
        ce: l3.ce,
        entropy: ev::echo(u32::from(l3.flow_label), sport, l3.src.is_v6(), cfg.ev_high_half_in_sport),
        udp_len,
        bth,
        body,
    })
}

/// The timestamp a cut packet still carries.
#[inline]
fn trimmed_timestamp(bth: &BthRepr, after_bth: &[u8]) -> u16 {
    //= TRIM-004
    if !bth.ts {
        return 0;
    }
    match after_bth.first_chunk::<{ MethRepr::LEN + TsethRepr::LEN }>() {
        Some(&[_, _, _, _, a, b, c, d]) => TsethRepr::parse(&[a, b, c, d]).reflected(),
        None => 0,
    }
}

/// Steps 1 and 2.
#[inline]
fn layer3(head: &[u8], wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    //= VAL-002
    let (eth, mut rest) = head.split_first_chunk::<ETH_LEN>().ok_or(Reject::L3Bad)?;
    let mut at = ETH_LEN;
    let mut ethertype = u16::from_be_bytes([eth[12], eth[13]]);
    //= ETH-002
    if ethertype == ETHERTYPE_VLAN {
        let (tag, after) = rest.split_first_chunk::<4>().ok_or(Reject::L3Bad)?;
        ethertype = u16::from_be_bytes([tag[2], tag[3]]);
        rest = after;
        at += 4;
    }
    //= ETH-001
    match ethertype {
        ETHERTYPE_IPV6 => layer3_v6(rest, at, wire_len, is_local),
        ETHERTYPE_IPV4 => layer3_v4(rest, at, wire_len, is_local),
        _ => Err(Reject::L3Bad),
    }
}

#[inline]
fn layer3_v6(bytes: &[u8], at: usize, wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    let (first, rest) = split_v6(bytes).ok_or(Reject::L3Bad)?;
    //= VAL-003
    if !is_local(&Ip::V6(first.dst)) {
        return Err(Reject::L3Dst);
    }
    let next_at = at + IPV6_LEN;
    let fits = first.len <= wire_len.saturating_sub(next_at);
    let (srh, rest) = match first.next_header {
        NH_IPV6 => (0, rest),
        NH_ROUTING => skip_srh(rest).ok_or(Reject::L3Dst)?,
        protocol => {
            return Ok(Layer3 {
                at,
                next_at,
                next: rest,
                len: first.len,
                protocol,
                src: Ip::V6(first.src),
                dst: Ip::V6(first.dst),
                outer_dst: None,
                dscp: first.dscp,
                ce: first.ce,
                flow_label: first.flow_label,
                fits,
            });
        }
    };
    //= HOST-001
    let (inner, next) = split_v6(rest).ok_or(Reject::L3Dst)?;
    if inner.next_header == NH_IPV6 || inner.next_header == NH_ROUTING {
        return Err(Reject::L3Dst);
    }
    let at = next_at + srh;
    Ok(Layer3 {
        at,
        next_at: at + IPV6_LEN,
        next,
        len: inner.len,
        protocol: inner.next_header,
        src: Ip::V6(inner.src),
        dst: Ip::V6(inner.dst),
        outer_dst: Some(first.dst),
        //= SRV6-006
        dscp: first.dscp,
        ce: first.ce | inner.ce,
        //= EVW-004
        flow_label: inner.flow_label,
        fits: fits && srh + IPV6_LEN + inner.len <= first.len,
    })
}

#[inline]
fn split_v6(bytes: &[u8]) -> Option<(V6, &[u8])> {
    let (ip, rest) = bytes.split_first_chunk::<IPV6_LEN>()?;
    let [v, t, l0, l1, p0, p1, next_header, _hop_limit, addresses @ ..] = ip;
    if v >> 4 != 6 {
        return None;
    }
    let (src, dst) = addresses.split_first_chunk::<16>()?;
    let fields = V6 {
        len: usize::from(u16::from_be_bytes([*p0, *p1])),
        next_header: *next_header,
        dscp: (v & 0x0F) << 2 | t >> 6,
        //= IP6-004
        ce: t & 0x30 == 0x30,
        //= IP6-005
        flow_label: u16::from_be_bytes([*l0, *l1]),
        src: *src,
        dst: *dst.first_chunk::<16>()?,
    };
    Some((fields, rest))
}

/// Length of a segment routing header that is at its end, and what follows it.
#[inline]
fn skip_srh(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let &[next_header, len, kind, segments_left] = bytes.first_chunk::<4>()?;
    //= SRH-004
    // Room for one segment is 2 units; more is TLVs, which a host need not understand to step over.
    if next_header != NH_IPV6 || len < 2 || kind != 4 || segments_left != 0 {
        return None;
    }
    let len = 8 + 8 * usize::from(len);
    Some((len, bytes.get(len..)?))
}

#[inline]
fn layer3_v4(bytes: &[u8], at: usize, wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    let (ip, rest) = bytes.split_first_chunk::<IPV4_LEN>().ok_or(Reject::L3Bad)?;
    //= IP4-002
    let header = 4 * usize::from(ip[0] & 0x0F);
    let options = header.checked_sub(IPV4_LEN).ok_or(Reject::L3Bad)?;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    // A fragment carries no UDP header, or not the whole datagram; MRC sends with DF.
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3FFF != 0;
    if ip[0] >> 4 != 4 || fragment {
        return Err(Reject::L3Bad);
    }
    let next = rest.get(options..).ok_or(Reject::L3Bad)?;
    let dst = Ip::V4([ip[16], ip[17], ip[18], ip[19]]);
    if !is_local(&dst) {
        return Err(Reject::L3Dst);
    }
    Ok(Layer3 {
        at,
        next_at: at + header,
        next,
        len: total.saturating_sub(header),
        protocol: ip[9],
        src: Ip::V4([ip[12], ip[13], ip[14], ip[15]]),
        dst,
        outer_dst: None,
        dscp: ip[1] >> 2,
        ce: ip[1] & 3 == 3,
        //= IP4-003
        flow_label: 0,
        fits: total >= header && at + total <= wire_len,
    })
}

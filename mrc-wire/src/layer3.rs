//! Steps 1 and 2 of the validation order, wire.md section 14: the IP headers of a received frame, one or two of them, with VLAN tags before
//! and a segment routing header between.

use crate::bytes::last;
use crate::ip::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, NH_IPV6, NH_ROUTING, behind_tags};
use crate::{Ip, Reject};

/// The IP headers: the one that carries UDP and the outermost one, which are one unless the frame was tunnelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum L3<'a> {
    V6 { outermost: &'a [u8; IPV6_LEN], ip: &'a [u8; IPV6_LEN] },
    V4(&'a [u8; IPV4_LEN]),
}

impl L3<'_> {
    #[inline(always)]
    pub(crate) fn outermost_dst(&self) -> Ip {
        match self {
            L3::V6 { outermost, .. } => Ip::V6(v6_dst(outermost)),
            L3::V4(ip) => Ip::V4([ip[16], ip[17], ip[18], ip[19]]),
        }
    }

    #[inline]
    pub(crate) const fn outermost_traffic_class(&self) -> u8 {
        match self {
            L3::V6 { outermost, .. } => outermost[0] << 4 | outermost[1] >> 4,
            L3::V4(ip) => ip[1],
        }
    }
}

#[inline]
const fn v6_len(ip: &[u8; IPV6_LEN]) -> usize {
    u16::from_be_bytes([ip[4], ip[5]]) as usize
}

#[inline]
const fn v6_next_header(ip: &[u8; IPV6_LEN]) -> u8 {
    ip[6]
}

#[inline]
pub(crate) fn v6_src(ip: &[u8; IPV6_LEN]) -> [u8; 16] {
    let [_, _, _, _, _, _, _, _, src @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = ip;
    *src
}

#[inline]
pub(crate) fn v6_dst(ip: &[u8; IPV6_LEN]) -> [u8; 16] {
    last(ip).copied().unwrap_or_default()
}

/// What steps 1 and 2 found, and what step 3 needs.
pub(crate) struct Layer3<'a> {
    /// Offset of the IP header that carries UDP.
    pub(crate) at: usize,
    pub(crate) l3: L3<'a>,
    /// Offset of what it carries.
    pub(crate) next_at: usize,
    /// The bytes there, as far as given.
    pub(crate) next: &'a [u8],
    /// Payload bytes its length field claims.
    pub(crate) len: usize,
    pub(crate) protocol: u8,
    /// Every length field agrees with the received bytes.
    pub(crate) fits: bool,
}

/// Steps 1 and 2.
#[inline(always)]
pub(crate) fn layer3(head: &[u8], wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    //= VAL-002
    let (at, ethertype, rest) = behind_tags(head).ok_or(Reject::L3Bad)?;
    //= ETH-001
    match ethertype {
        ETHERTYPE_IPV6 => layer3_v6(rest, at, wire_len, is_local),
        ETHERTYPE_IPV4 => layer3_v4(rest, at, wire_len, is_local),
        _ => Err(Reject::L3Bad),
    }
}

#[inline(always)]
fn layer3_v6(bytes: &[u8], at: usize, wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    let (first, rest) = split_v6(bytes).ok_or(Reject::L3Bad)?;
    //= VAL-003
    if !is_local(&Ip::V6(v6_dst(first))) {
        return Err(Reject::L3Dst);
    }
    let next_at = at.wrapping_add(IPV6_LEN);
    let fits = v6_len(first) <= wire_len.saturating_sub(next_at);
    let (srh, rest) = match v6_next_header(first) {
        NH_IPV6 => (0, rest),
        NH_ROUTING => skip_srh(rest).ok_or(Reject::L3Dst)?,
        protocol => {
            let (len, l3) = (v6_len(first), L3::V6 { outermost: first, ip: first });
            return Ok(Layer3 { at, l3, next_at, next: rest, len, protocol, fits });
        }
    };
    //= HOST-001
    let (inner, next) = split_v6(rest).ok_or(Reject::L3Dst)?;
    let protocol = v6_next_header(inner);
    if protocol == NH_IPV6 || protocol == NH_ROUTING {
        return Err(Reject::L3Dst);
    }
    let at = next_at.wrapping_add(srh);
    Ok(Layer3 {
        at,
        l3: L3::V6 { outermost: first, ip: inner },
        next_at: at.wrapping_add(IPV6_LEN),
        next,
        len: v6_len(inner),
        protocol,
        fits: fits && v6_len(inner).wrapping_add(srh).wrapping_add(IPV6_LEN) <= v6_len(first),
    })
}

#[inline(always)]
fn split_v6(bytes: &[u8]) -> Option<(&[u8; IPV6_LEN], &[u8])> {
    bytes.split_first_chunk::<IPV6_LEN>().filter(|(ip, _)| ip[0] >> 4 == 6)
}

/// Length of a segment routing header that is at its end, and what follows it.
#[cold]
fn skip_srh(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let &[next_header, len, kind, segments_left] = bytes.first_chunk::<4>()?;
    //= SRH-004
    // Room for one segment is 2 units; more is TLVs, which a host need not understand to step over.
    if next_header != NH_IPV6 || len < 2 || kind != 4 || segments_left != 0 {
        return None;
    }
    let len = (usize::from(len) << 3).wrapping_add(8);
    Some((len, bytes.get(len..)?))
}

#[inline(never)]
fn layer3_v4(bytes: &[u8], at: usize, wire_len: usize, is_local: impl Fn(&Ip) -> bool) -> Result<Layer3<'_>, Reject> {
    let (ip, rest) = bytes.split_first_chunk::<IPV4_LEN>().ok_or(Reject::L3Bad)?;
    //= IP4-002
    let header = usize::from(ip[0] & 0x0F) << 2;
    let options = header.checked_sub(IPV4_LEN).ok_or(Reject::L3Bad)?;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    // A fragment carries no UDP header, or not the whole datagram; MRC sends with DF.
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3FFF != 0;
    if ip[0] >> 4 != 4 || fragment {
        return Err(Reject::L3Bad);
    }
    let next = rest.get(options..).ok_or(Reject::L3Bad)?;
    let l3 = L3::V4(ip);
    if !is_local(&l3.outermost_dst()) {
        return Err(Reject::L3Dst);
    }
    Ok(Layer3 {
        at,
        l3,
        next_at: at.wrapping_add(header),
        next,
        len: total.saturating_sub(header),
        protocol: ip[9],
        fits: total >= header && at.wrapping_add(total) <= wire_len,
    })
}

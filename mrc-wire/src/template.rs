//! Emission: the headers below BTH are alike for all packets of a QP on a plane, so they are built once.

use crate::bytes::{last, last_mut, split_last};
use crate::ip::{
    ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, NH_IPV6, NH_ROUTING, NH_UDP, UDP_LEN, pad_len,
};
use crate::{Body, BthRepr, Ecn, Encap, Ev, Ip, Outer, Srh, WireConfig, ev, icrc};

/// Bytes of a segment routing header with one segment.
const SRH_LEN: usize = 24;

/// Most bytes behind UDP in IPv6 in IPv6: more than that the length of the outer header cannot say.
const LONGEST_IN_TUNNEL: usize = u16::MAX as usize - UDP_LEN - IPV6_LEN;

/// Which layers a template has, and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Layers {
    /// Ethernet, IPv4, UDP. In place of the header checksum stands the sum of the 16-bit words that do not change.
    V4 = (ETH_LEN + IPV4_LEN + UDP_LEN) as u8,
    /// Ethernet, IPv6, UDP.
    V6 = (ETH_LEN + INNER_LEN) as u8,
    /// Ethernet, outer IPv6, IPv6, UDP.
    Outer = (OUTER_END + INNER_LEN) as u8,
    /// The same with an SRH behind the outer header.
    OuterSrh = FrameTemplate::HEADER_LEN_MAX as u8,
}

/// Ethernet to UDP of all packets of one QP on one plane, ready to be copied and completed. Two lines of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct FrameTemplate {
    /// All headers as they lie in the frame, what is fields per packet left out.
    bytes: [u8; Self::HEADER_LEN_MAX],
    layers: Layers,
    /// [`SWAP_EV`], and where BTH has the solicited bit.
    flags: u8,
}

/// The high half of an EV goes to the source port.
const SWAP_EV: u8 = 0x80;

const _: () = assert!(size_of::<FrameTemplate>() == 128);

/// Ethernet and the outer IPv6 header.
const OUTER_END: usize = ETH_LEN + IPV6_LEN;
/// The IPv6 header that carries UDP, and UDP.
const INNER_LEN: usize = IPV6_LEN + UDP_LEN;

impl FrameTemplate {
    /// Most bytes before BTH: Ethernet, outer IPv6, SRH, IPv6, UDP.
    pub const HEADER_LEN_MAX: usize = ETH_LEN + IPV6_LEN + SRH_LEN + IPV6_LEN + UDP_LEN;

    /// Most bytes of a write packet beside its payload that count against the MTU: everything from the outer IPv6 header with
    /// SRH to the ICRC, timestamp and immediate included. A link needs an MTU of the path MTU plus this.
    pub const OVERHEAD_MAX: usize =
        Self::HEADER_LEN_MAX - ETH_LEN + BthRepr::LEN + Body::WRITE_HEADER_LEN_MAX + icrc::LEN;

    /// To fill storage with: no headers that a network would carry.
    pub const BLANK: Self = Self { bytes: [0; Self::HEADER_LEN_MAX], layers: Layers::V6, flags: 0 };

    /// A byte of each line of memory that emission reads.
    #[inline]
    #[must_use]
    pub const fn lines(&self) -> [&u8; 2] {
        let ([first, ..], [.., last]) = (&self.bytes, &self.bytes);
        [first, last]
    }

    /// Builds the constant parts.
    ///
    /// Of an `encap` that fails [`Encap::check`] this remains: the family of the destination decides, a source of the
    /// other family becomes the unspecified address, SRv6 around IPv4 is left out.
    #[must_use]
    pub fn new(encap: &Encap, cfg: &WireConfig) -> Self {
        let mut bytes = [0; Self::HEADER_LEN_MAX];
        let mut end = 0;
        let mut lay = |part: &[u8]| {
            for (to, from) in bytes.iter_mut().skip(end).zip(part) {
                *to = *from;
            }
            end = part.len().wrapping_add(end);
        };
        //= STACK-002
        let ethertype = if encap.dst.is_v6() { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
        lay(&eth(&encap.eth_dst, &encap.eth_src, ethertype));
        let layers = match encap.dst {
            Ip::V6(dst) => {
                let src = match encap.src {
                    Ip::V6(src) => src,
                    Ip::V4(_) => [0; 16],
                };
                let srh = encap.outer.and_then(|outer| outer.srh);
                //= SRV6-001
                if let Some(outer) = &encap.outer {
                    let next = if srh.is_some() { NH_ROUTING } else { NH_IPV6 };
                    lay(&ipv6(next, encap.outer_hop_limit, &outer.src, &outer.dst));
                }
                if let Some(segment) = &srh {
                    lay(&self::srh(segment));
                }
                lay(&ipv6(NH_UDP, encap.hop_limit, &src, &dst));
                match (encap.outer, srh) {
                    (None, _) => Layers::V6,
                    (Some(_), None) => Layers::Outer,
                    (Some(_), Some(_)) => Layers::OuterSrh,
                }
            }
            Ip::V4(dst) => {
                let src = match encap.src {
                    Ip::V4(src) => src,
                    Ip::V6(_) => [0; 4],
                };
                let mut ip = ipv4(encap.hop_limit, src, dst);
                let words = ip.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
                let [high, low] = fold(words.fold(0, u32::wrapping_add)).to_be_bytes();
                (ip[10], ip[11]) = (high, low);
                lay(&ip);
                Layers::V4
            }
        };
        //= UDP-003
        let [port_high, port_low] = cfg.udp_dport.to_be_bytes();
        lay(&[0, 0, port_high, port_low, 0, 0, 0, 0]);
        let swap = if cfg.ev_high_half_in_sport { SWAP_EV } else { 0 };
        Self { bytes, layers, flags: swap | cfg.bth_se_bit.min(crate::bth::SE_BIT) }
    }

    /// What the template was built from: with the same [`WireConfig`] it makes the same one again.
    #[must_use]
    pub fn encap(&self) -> Encap {
        let l3 = self.l3_offset();
        let outer = match self.layers {
            Layers::V4 | Layers::V6 => None,
            Layers::Outer | Layers::OuterSrh => Some(Outer {
                src: self.field(ETH_LEN + 8),
                dst: self.field(ETH_LEN + 24),
                srh: matches!(self.layers, Layers::OuterSrh).then(|| {
                    let [segments_left] = self.field(OUTER_END + 3);
                    Srh { segments_left, segment: self.field(OUTER_END + 8) }
                }),
            }),
        };
        let [outer_hop_limit] = if outer.is_some() { self.field(ETH_LEN + 7) } else { [Encap::HOP_LIMIT] };
        let (src, dst, [hop_limit]) = match self.layers {
            Layers::V4 => (Ip::V4(self.field(ETH_LEN + 12)), Ip::V4(self.field(ETH_LEN + 16)), self.field(ETH_LEN + 8)),
            _ => (
                Ip::V6(self.field(l3.wrapping_add(8))),
                Ip::V6(self.field(l3.wrapping_add(24))),
                self.field(l3.wrapping_add(7)),
            ),
        };
        Encap { eth_src: self.field(6), eth_dst: self.field(0), outer, src, dst, hop_limit, outer_hop_limit }
    }

    /// The bytes at `offset`, which lie inside the headers.
    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    /// Bytes before BTH.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.layers as usize
    }

    /// Bytes that a segment given with a packet adds to its headers.
    #[inline]
    #[must_use]
    pub const fn segment_len(&self) -> usize {
        if matches!(self.layers, Layers::Outer) { SRH_LEN } else { 0 }
    }

    /// Bytes of the IP header that carries UDP, and of UDP: from where the ICRC starts to BTH.
    #[inline]
    #[must_use]
    pub const fn inner_len(&self) -> usize {
        if matches!(self.layers, Layers::V4) { IPV4_LEN + UDP_LEN } else { INNER_LEN }
    }

    /// Offset of the IP header that carries UDP: where the ICRC starts.
    #[inline]
    #[must_use]
    pub const fn l3_offset(&self) -> usize {
        self.header_len().wrapping_sub(self.inner_len())
    }

    /// Writes Ethernet to UDP for `udp_payload_len` bytes from BTH through ICRC.
    ///
    /// `outer_dst` replaces the outer destination of the template (algorithmic SRv6); without an outer header it is
    /// ignored. Returns the bytes written; `None` when `out` is too small or the packet longer than IP can say.
    #[inline]
    pub fn emit(
        &self,
        out: &mut [u8],
        ev: Ev,
        dscp: u8,
        ecn: Ecn,
        udp_payload_len: usize,
        outer_dst: Option<&[u8; 16]>,
    ) -> Option<usize> {
        let outer_dst = outer_dst.map(|dst| u128::from_be_bytes(*dst));
        self.emit_via(out, ev, dscp, ecn, udp_payload_len, outer_dst, None).map(|(written, _)| written)
    }

    /// As [`FrameTemplate::emit`], with an SRH of this one segment behind the outer header, in place of the template's own
    /// if it has one. Returns the bytes written, and the offset where the ICRC starts: both are then
    /// [`FrameTemplate::segment_len`] more than the template's. Without an outer header it is ignored.
    //= SRH-001, SRH-003
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the per-packet fields, once more")]
    pub fn emit_via(
        &self,
        out: &mut [u8],
        ev: Ev,
        dscp: u8,
        ecn: Ecn,
        udp_payload_len: usize,
        outer_dst: Option<u128>,
        segment: Option<&[u8; 16]>,
    ) -> Option<(usize, usize)> {
        let tos = dscp << 2 | ecn.bits();
        let (label, sport) = ev::place(ev, true, self.flags & SWAP_EV != 0);
        // What this cuts off is refused.
        let udp_len = (udp_payload_len as u16).wrapping_add(UDP_LEN as u16);
        let fields = Fields { tos, label, sport, udp_len };
        //= SRV6-002, SRV6-003
        if matches!((self.layers, segment), (Layers::Outer, None)) {
            if udp_payload_len > LONGEST_IN_TUNNEL {
                return None;
            }
            let (head, inner) = split(self.copy_to::<{ OUTER_END + INNER_LEN }>(out)?)?;
            fields.outer(head, udp_len.wrapping_add(IPV6_LEN as u16), outer_dst)?;
            fields.inner(inner)?;
            return Some((OUTER_END + INNER_LEN, OUTER_END));
        }
        if udp_payload_len > usize::from(u16::MAX).wrapping_sub(UDP_LEN) {
            return None;
        }
        let written = self.emit_other(out, ev, fields, outer_dst, segment)?;
        Some((written, written.wrapping_sub(self.inner_len())))
    }

    /// Every stack of layers but that of algorithmic SRv6: out of line, so that this one stays short.
    #[inline(never)]
    fn emit_other(
        &self,
        out: &mut [u8],
        ev: Ev,
        fields: Fields,
        outer_dst: Option<u128>,
        segment: Option<&[u8; 16]>,
    ) -> Option<usize> {
        let Fields { tos, udp_len, .. } = fields;
        match (self.layers, segment) {
            (Layers::V6, _) => {
                let (_, inner) = split(self.copy_to::<{ ETH_LEN + INNER_LEN }>(out)?)?;
                fields.inner(inner)?;
            }
            (Layers::Outer, segment) => {
                let to = out.first_chunk_mut::<{ Self::HEADER_LEN_MAX }>()?;
                let (head, inner) = split(to)?;
                let head: &mut [u8; OUTER_END + SRH_LEN] = head.try_into().ok()?;
                let (of_head, rest) = self.bytes.split_first_chunk::<OUTER_END>()?;
                *head.first_chunk_mut()? = *of_head;
                *inner = *rest.first_chunk()?;
                self.outer_and_srh(fields, head, outer_dst, segment)?;
                fields.inner(inner)?;
            }
            (Layers::OuterSrh, segment) => {
                let (head, inner) = split(self.copy_to::<{ Self::HEADER_LEN_MAX }>(out)?)?;
                self.outer_and_srh(fields, head.try_into().ok()?, outer_dst, segment)?;
                fields.inner(inner)?;
            }
            (Layers::V4, _) => {
                let frame = self.copy_to::<{ ETH_LEN + IPV4_LEN + UDP_LEN }>(out)?;
                let (ip, udp) = split_last::<UDP_LEN>(frame)?;
                let ip = last_mut::<IPV4_LEN>(ip)?;
                //= IP4-001
                let total = udp_len.checked_add(IPV4_LEN as u16)?;
                let [t0, t1] = total.to_be_bytes();
                let sum = u32::from(u16::from_be_bytes([ip[10], ip[11]]));
                let [c0, c1] = checksum(sum.wrapping_add(u32::from(tos)).wrapping_add(u32::from(total))).to_be_bytes();
                (ip[1], ip[2], ip[3], ip[10], ip[11]) = (tos, t0, t1, c0, c1);
                //= IP4-003
                Fields { sport: ev.low(), ..fields }.udp(udp);
            }
        }
        Some(self.header_len().wrapping_add(if segment.is_some() { self.segment_len() } else { 0 }))
    }

    /// Copies the first `N` bytes to the beginning of `out`; the length is known at compile time, so that this is a few
    /// moves.
    #[inline(always)]
    fn copy_to<'o, const N: usize>(&self, out: &'o mut [u8]) -> Option<&'o mut [u8; N]> {
        let to = out.first_chunk_mut::<N>()?;
        *to = *self.bytes.first_chunk::<N>()?;
        Some(to)
    }

    // `fields` by value: out of line its address would keep it in memory for every other packet.
    /// Completes outer header and SRH, with `segment` in place of the template's own if given.
    fn outer_and_srh(
        &self,
        fields: Fields,
        head: &mut [u8; OUTER_END + SRH_LEN],
        outer_dst: Option<u128>,
        segment: Option<&[u8; 16]>,
    ) -> Option<()> {
        let behind = (IPV6_LEN + SRH_LEN) as u16;
        let (outer, to) = split_last::<SRH_LEN>(head)?;
        fields.outer(outer, fields.udp_len.checked_add(behind)?, outer_dst)?;
        let ip = last_mut::<IPV6_LEN>(outer)?;
        ip[6] = NH_ROUTING;
        if let Some(segment) = segment {
            *to = srh(&Srh { segments_left: 1, segment: *segment });
        }
        //= SRH-002
        if to[3] == 0 {
            *last_mut::<16>(to)? = *last::<16>(ip)?;
        }
        Some(())
    }

    /// Writes a whole packet: all headers, `payload`, pad and ICRC. Returns its length, `None` when it does not fit.
    ///
    /// `bth.pad` is worked out here. For control packets, the simulator and tests; a driver that sends payload from
    /// registered memory calls [`FrameTemplate::emit`] and folds the ICRC into its copy.
    #[inline]
    pub fn emit_packet(
        &self,
        out: &mut [u8],
        meta: &EmitMeta<'_>,
        bth: &BthRepr,
        body: &Body,
        payload: &[u8],
    ) -> Option<usize> {
        let pad = pad_len(payload.len());
        let ext_len = body.header_len();
        let transport_len = ext_len.wrapping_add(BthRepr::LEN);
        let covered = payload.len().checked_add(usize::from(pad))?.checked_add(transport_len)?;
        let udp_payload = covered.checked_add(icrc::LEN)?;
        let at = self.emit(out, meta.ev, meta.dscp, meta.ecn, udp_payload, meta.outer_dst)?;
        let len = at.checked_add(udp_payload)?;
        let out = out.get_mut(..len)?;
        let (packet, trailer) = split_last::<{ icrc::LEN }>(out)?;
        //= STACK-001
        let (headers, data) = packet.split_at_mut_checked(at.wrapping_add(transport_len))?;
        let (bth_at, ext_at) = headers.get_mut(at..)?.split_first_chunk_mut::<{ BthRepr::LEN }>()?;
        BthRepr { pad, ..*bth }.emit_with(bth_at, self.flags & !SWAP_EV);
        body.emit(ext_at)?;
        let mut sum = icrc::Icrc::over_headers(headers.get(self.l3_offset()..)?)?;
        let copied = icrc::copy_and_update(&mut sum, data, payload);
        let pad = data.get_mut(copied..)?;
        //= LEN-004
        pad.fill(0);
        sum.update(pad);
        *trailer = sum.finish();
        Some(len)
    }
}

/// The per-packet parts below UDP.
#[derive(Clone, Copy, Debug)]
pub struct EmitMeta<'a> {
    /// Entropy value.
    pub ev: Ev,
    /// Code point, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Replaces the outer destination of the template.
    pub outer_dst: Option<&'a [u8; 16]>,
}

/// The headers before the IPv6 header that carries UDP, and from there on.
#[inline(always)]
fn split(headers: &mut [u8]) -> Option<(&mut [u8], &mut [u8; INNER_LEN])> {
    split_last(headers)
}

/// The fields that differ from packet to packet, and how they are written over a copy of the template.
#[derive(Clone, Copy)]
struct Fields {
    tos: u8,
    label: u16,
    sport: u16,
    udp_len: u16,
}

impl Fields {
    /// Version, traffic class, flow label and payload length.
    #[inline(always)]
    fn ipv6(&self, ip: &mut [u8; IPV6_LEN], len: u16) {
        //= IP6-001, IP6-005
        let word = 0x6000_0000 | u32::from(self.tos) << 20 | u32::from(self.label);
        let [a, b, c, d] = word.to_be_bytes();
        let [e, f] = len.to_be_bytes();
        (ip[0], ip[1], ip[2], ip[3], ip[4], ip[5]) = (a, b, c, d, e, f);
    }

    /// The outer header, at the end of `headers`.
    #[inline(always)]
    fn outer(&self, headers: &mut [u8], len: u16, dst: Option<u128>) -> Option<()> {
        let ip = last_mut(headers)?;
        self.ipv6(ip, len);
        if let Some(dst) = dst {
            *last_mut::<16>(ip)? = dst.to_be_bytes();
        }
        Some(())
    }

    /// The IPv6 header that carries UDP, and UDP.
    #[inline(always)]
    fn inner(&self, headers: &mut [u8; INNER_LEN]) -> Option<()> {
        self.ipv6(headers.first_chunk_mut()?, self.udp_len);
        self.udp(last_mut(headers)?);
        Some(())
    }

    #[inline(always)]
    fn udp(&self, udp: &mut [u8; UDP_LEN]) {
        let ([a, b], [c, d]) = (self.sport.to_be_bytes(), self.udp_len.to_be_bytes());
        (udp[0], udp[1], udp[4], udp[5]) = (a, b, c, d);
    }
}

fn eth(dst: &[u8; 6], src: &[u8; 6], ethertype: u16) -> [u8; ETH_LEN] {
    let [d0, d1, d2, d3, d4, d5] = *dst;
    let [s0, s1, s2, s3, s4, s5] = *src;
    let [t0, t1] = ethertype.to_be_bytes();
    //= ETH-001
    [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1]
}

fn ipv6(next_header: u8, hop_limit: u8, src: &[u8; 16], dst: &[u8; 16]) -> [u8; IPV6_LEN] {
    let mut ip = [0; IPV6_LEN];
    (ip[0], ip[6], ip[7]) = (0x60, next_header, hop_limit);
    for (to, from) in ip.iter_mut().skip(8).zip(src.iter().chain(dst)) {
        *to = *from;
    }
    ip
}

fn ipv4(ttl: u8, src: [u8; 4], dst: [u8; 4]) -> [u8; IPV4_LEN] {
    const DONT_FRAGMENT: u8 = 0x40;
    let [s0, s1, s2, s3] = src;
    let [d0, d1, d2, d3] = dst;
    [0x45, 0, 0, 0, 0, 0, DONT_FRAGMENT, 0, ttl, NH_UDP, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3]
}

/// The Internet checksum of words whose sum is `sum`; at most 2^16 words.
#[inline]
fn checksum(sum: u32) -> u16 {
    !fold(sum)
}

/// The sum of the same words with its carries added.
#[inline]
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xFFFF).wrapping_add(sum >> 16);
    (once & 0xFFFF).wrapping_add(once >> 16) as u16
}

fn srh(srh: &Srh) -> [u8; SRH_LEN] {
    let mut b = [0; SRH_LEN];
    //= SRH-001, SRH-003
    (b[0], b[1], b[2], b[3]) = (NH_IPV6, 2, 4, srh.segments_left);
    for (to, from) in b.iter_mut().skip(8).zip(&srh.segment) {
        *to = *from;
    }
    b
}

//! Everything below BTH, prebuilt per peer and plane: Ethernet, outer IPv6, SRH, inner IP, UDP. A packet copies it and
//! fills in lengths, class, EV and outer destination. Source: `wire.md` 2.

use crate::{
    Ecn, Ev, WireConfig, ev,
    ip::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, Ip, NH_IPV6, NH_ROUTING, NH_UDP, UDP_LEN},
};

/// Bytes of an SRH with one segment.
const SRH_LEN: usize = 24;
const MAX_LEN: usize = ETH_LEN + IPV6_LEN + SRH_LEN + IPV6_LEN + UDP_LEN;

/// A routing header with one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Srh {
    /// 0: a record of the original destination; 1: a second container still to visit.
    pub segments_left: u8,
    /// The segment.
    pub segment: [u8; 16],
}

/// The SRv6 header around a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outer {
    /// The sending port's own address.
    pub src: [u8; 16],
    /// Micro-SIDs to visit; replaced per packet under algorithmic mapping.
    pub dst: [u8; 16],
    /// Routing header, if any.
    pub srh: Option<Srh>,
}

/// Addresses of packets to one peer through one plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encap {
    /// Our port's MAC address.
    pub eth_src: [u8; 6],
    /// The next hop's.
    pub eth_dst: [u8; 6],
    /// SRv6, if used.
    pub outer: Option<Outer>,
    /// Inner source address.
    pub src: Ip,
    /// Inner destination address, of the same family.
    pub dst: Ip,
    /// Inner hop limit.
    pub hop_limit: u8,
    /// Outer hop limit.
    pub outer_hop_limit: u8,
}

/// Prebuilt headers; plain data of fixed size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameTemplate {
    bytes: [u8; MAX_LEN],
    /// Bytes in use.
    len: u8,
    /// Offset of the inner (or only) IP header.
    l3: u8,
    v6: bool,
    high_half_in_sport: bool,
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

impl FrameTemplate {
    /// Builds the headers. Addresses of different families make an IPv6 packet with an unspecified address in the place
    /// of the IPv4 one; SRv6 is left out over IPv4.
    #[must_use]
    pub fn new(encap: &Encap, cfg: &WireConfig) -> Self {
        let mut bytes = [0u8; MAX_LEN];
        put(&mut bytes, 0, &encap.eth_dst);
        put(&mut bytes, 6, &encap.eth_src);
        let v6 = encap.src.is_v6() || encap.dst.is_v6();
        put(&mut bytes, 12, &(if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 }).to_be_bytes());
        let mut at = ETH_LEN;
        if let Some(outer) = encap.outer.filter(|_| v6) {
            at = put_outer(&mut bytes, at, &outer, encap.outer_hop_limit);
        }
        let l3 = at;
        match (encap.src, encap.dst) {
            (Ip::V4(src), Ip::V4(dst)) => {
                put(&mut bytes, at, &[0x45, 0, 0, 0, 0, 0, 0x40, 0, encap.hop_limit, NH_UDP]);
                put(&mut bytes, at + 12, &src);
                put(&mut bytes, at + 16, &dst);
                at += IPV4_LEN;
            }
            (src, dst) => {
                let octets = |ip| if let Ip::V6(octets) = ip { octets } else { [0; 16] };
                put(&mut bytes, at, &[0x60, 0, 0, 0, 0, 0, NH_UDP, encap.hop_limit]);
                put(&mut bytes, at + 8, &octets(src));
                put(&mut bytes, at + 24, &octets(dst));
                at += IPV6_LEN;
            }
        }
        put(&mut bytes, at + 2, &cfg.udp_dport.to_be_bytes());
        at += UDP_LEN;
        let high_half_in_sport = cfg.ev_high_half_in_sport;
        Self { bytes, len: at as u8, l3: l3 as u8, v6, high_half_in_sport }
    }

    /// Bytes before BTH.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.len as usize
    }

    /// Offset of the IP header that carries UDP: where the ICRC starts.
    #[inline]
    #[must_use]
    pub const fn l3_offset(&self) -> usize {
        self.l3 as usize
    }

    /// Writes the headers of a packet whose UDP payload (BTH through ICRC) has `udp_payload_len` bytes. `outer_dst`
    /// replaces the outer destination. Returns the bytes written; `None` when `out` is too short or the packet too long.
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
        let (len, l3) = (usize::from(self.len), usize::from(self.l3));
        // A fixed-size copy compiles to a few moves; the tail beyond `len` is overwritten by the caller.
        if let Some(whole) = out.first_chunk_mut::<MAX_LEN>() {
            *whole = self.bytes;
        } else {
            put(out.get_mut(..len)?, 0, self.bytes.get(..len)?);
        }
        let out = out.get_mut(..len)?;
        let udp_len = u16::try_from(UDP_LEN + udp_payload_len).ok()?;
        let traffic_class = dscp << 2 | ecn.bits();
        let (label, sport) = ev::place(ev, self.v6, self.high_half_in_sport);
        let (ip, udp) = out.get_mut(l3..)?.split_at_mut_checked(len - l3 - UDP_LEN)?;
        let udp: &mut [u8; UDP_LEN] = udp.first_chunk_mut()?;
        [udp[0], udp[1]] = sport.to_be_bytes();
        [udp[4], udp[5]] = udp_len.to_be_bytes();
        if !self.v6 {
            let ip: &mut [u8; IPV4_LEN] = ip.first_chunk_mut()?;
            ip[1] = traffic_class;
            [ip[2], ip[3]] = udp_len.checked_add(IPV4_LEN as u16)?.to_be_bytes();
            [ip[10], ip[11]] = [0, 0];
            [ip[10], ip[11]] = ipv4_checksum(ip).to_be_bytes();
            return Some(len);
        }
        let first_word = (0x6000_0000 | u32::from(traffic_class) << 20 | u32::from(label)).to_be_bytes();
        let ip: &mut [u8; IPV6_LEN] = ip.first_chunk_mut()?;
        [ip[0], ip[1], ip[2], ip[3]] = first_word;
        [ip[4], ip[5]] = udp_len.to_be_bytes();
        if l3 > ETH_LEN {
            // Inner packet and, when there is one, the SRH between the headers.
            let between = l3 - ETH_LEN - IPV6_LEN;
            let outer_len = udp_len.checked_add((IPV6_LEN + between) as u16)?;
            let outer: &mut [u8; IPV6_LEN] = out.get_mut(ETH_LEN..)?.first_chunk_mut()?;
            //= SRV6-001
            [outer[0], outer[1], outer[2], outer[3]] = first_word;
            [outer[4], outer[5]] = outer_len.to_be_bytes();
            if let Some(dst) = outer_dst {
                outer[24..40].copy_from_slice(dst);
            }
        }
        Some(len)
    }
}

fn put_outer(bytes: &mut [u8; MAX_LEN], at: usize, outer: &Outer, hop_limit: u8) -> usize {
    let next = if outer.srh.is_some() { NH_ROUTING } else { NH_IPV6 };
    put(bytes, at, &[0x60, 0, 0, 0, 0, 0, next, hop_limit]);
    put(bytes, at + 8, &outer.src);
    put(bytes, at + 24, &outer.dst);
    let at = at + IPV6_LEN;
    let Some(srh) = outer.srh else { return at };
    //= SRH-001
    put(bytes, at, &[NH_IPV6, 2, 4, srh.segments_left, 0, 0, 0, 0]);
    put(bytes, at + 8, &srh.segment);
    at + SRH_LEN
}

/// RFC 1071 over a header whose checksum field is zero.
fn ipv4_checksum(header: &[u8; IPV4_LEN]) -> u16 {
    let mut sum = 0u32;
    for pair in header.chunks_exact(2) {
        if let [high, low] = pair {
            sum += u32::from(u16::from_be_bytes([*high, *low]));
        }
    }
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    !(sum as u16)
}

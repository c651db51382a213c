//! What switches put around frames that they mirror or carry: more VLAN tags than a host has, MPLS labels, GRE, ERSPAN, VXLAN
//! and Geneve. SRv6 is none of these: it is part of an MRC packet.

use super::capture::{Captured, ETH_LEN};

/// Both addresses of an Ethernet header.
const MACS_LEN: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const MPLS: u16 = 0x8847;
/// Labels of a multicast.
const MPLS_MULTICAST: u16 = 0x8848;
/// A whole Ethernet frame, behind GRE and Geneve.
const ETHERNET: u16 = 0x6558;
const ERSPAN_2: u16 = 0x88BE;
const ERSPAN_3: u16 = 0x22EB;
const UDP_LEN: usize = 8;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;

/// A frame in a tunnel.
struct Inside {
    /// The tunnel's name.
    tunnel: &'static str,
    /// Where the frame begins.
    at: usize,
    /// What begins there: [`ETHERNET`], or what stands behind an EtherType.
    ethertype: u16,
    /// The Ethernet header before the tunnel is the frame's own.
    has_outer_macs: bool,
    /// The switch says that it cut the frame.
    truncated: bool,
}

/// The frame in the outermost tunnel of `packet`; `None` if there is no tunnel, or not all of its headers.
pub fn open(packet: &Captured) -> Option<Captured> {
    let inside = outermost(&packet.bytes)?;
    let is_ethernet = inside.ethertype == ETHERNET;
    let at = if is_ethernet { inside.at + ETH_LEN } else { inside.at };
    let mut bytes = match (is_ethernet, inside.has_outer_macs) {
        (true, _) => packet.bytes.get(inside.at..at)?.to_vec(),
        (false, true) => [packet.bytes.get(..MACS_LEN)?, &inside.ethertype.to_be_bytes()].concat(),
        (false, false) => [&[0; MACS_LEN][..], &inside.ethertype.to_be_bytes()].concat(),
    };
    bytes.extend_from_slice(packet.bytes.get(at..)?);
    let carried = (packet.wire_len + ETH_LEN).saturating_sub(at);
    Some(Captured {
        at: packet.at,
        wire_len: if inside.truncated { whole_len(&bytes).unwrap_or(0).max(carried) } else { carried },
        link_len: packet.place(at),
        bare: !is_ethernet && (packet.bare || !inside.has_outer_macs),
        bytes,
        comments: packet.comments.clone(),
        foreign: false,
        tunnels: packet.tunnels.iter().copied().chain([inside.tunnel]).collect(),
    })
}

/// Bytes of a frame, as its IP header has them.
fn whole_len(bytes: &[u8]) -> Option<usize> {
    match behind_tags(bytes)? {
        (at, IPV4, _) => Some(at + usize::from(word(bytes, at + 2)?)),
        (at, IPV6, _) => Some(at + 40 + usize::from(word(bytes, at + 4)?)),
        _ => None,
    }
}

fn outermost(bytes: &[u8]) -> Option<Inside> {
    let (at, ethertype, is_usual) = behind_tags(bytes)?;
    let carried = match ethertype {
        MPLS | MPLS_MULTICAST => behind_labels(bytes, at),
        IPV4 | IPV6 => behind_ip(bytes, at, ethertype),
        _ => None,
    };
    // Tags alone are a tunnel, too, where a frame of MRC may not have them.
    let tagged = Inside { tunnel: "vlan", at, ethertype, has_outer_macs: true, truncated: false };
    carried.or((!is_usual && matches!(ethertype, IPV4 | IPV6)).then_some(tagged))
}

/// What stands behind all VLAN tags: where, its EtherType, and whether a frame of MRC may have these tags (ETH-002).
pub fn behind_tags(bytes: &[u8]) -> Option<(usize, u16, bool)> {
    let (mut at, mut ethertype, mut is_usual) = (ETH_LEN, word(bytes, MACS_LEN)?, true);
    while matches!(ethertype, 0x8100 | 0x88A8 | 0x9100 | 0x9200) {
        is_usual &= at < ETH_LEN + 8 && ethertype < 0x9000;
        (at, ethertype) = (at + 4, word(bytes, at + 2)?);
    }
    Some((at, ethertype, is_usual))
}

/// RFC 3032. Labels do not name what they carry: the first four bits do, as routers guess it. 0 is the control word of RFC 4385,
/// behind which an Ethernet frame begins.
fn behind_labels(bytes: &[u8], mut at: usize) -> Option<Inside> {
    const BOTTOM: u8 = 1;
    while bytes.get(at + 2)? & BOTTOM == 0 {
        at += 4;
    }
    at += 4;
    let (at, ethertype) = match bytes.get(at)? >> 4 {
        4 => (at, IPV4),
        6 => (at, IPV6),
        0 => (at + 4, ETHERNET),
        _ => return None,
    };
    Some(Inside { tunnel: "mpls", at, ethertype, has_outer_macs: true, truncated: false })
}

fn behind_ip(bytes: &[u8], at: usize, ethertype: u16) -> Option<Inside> {
    const UDP: u8 = 17;
    const GRE: u8 = 47;
    let (at, protocol) = if ethertype == IPV4 {
        let is_fragment = word(bytes, at + 6)? & 0x3FFF != 0;
        (at + 4 * usize::from(bytes.get(at)? & 0xF), if is_fragment { 0 } else { *bytes.get(at + 9)? })
    } else {
        behind_options(bytes, at)?
    };
    match protocol {
        GRE => behind_gre(bytes, at),
        UDP => behind_udp(bytes, at),
        _ => None,
    }
}

/// Behind an IPv6 header and its options. The destination options of a tunnel limit how many may be in one another (RFC 2473).
fn behind_options(bytes: &[u8], at: usize) -> Option<(usize, u8)> {
    const HOP_BY_HOP: u8 = 0;
    const DESTINATION: u8 = 60;
    let (mut next, mut at) = (*bytes.get(at + 6)?, at + 40);
    while matches!(next, HOP_BY_HOP | DESTINATION) {
        (next, at) = (*bytes.get(at)?, at + 8 * (1 + usize::from(*bytes.get(at + 1)?)));
    }
    Some((at, next))
}

/// RFC 2784 and 2890.
fn behind_gre(bytes: &[u8], at: usize) -> Option<Inside> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 7;
    let (flags, protocol) = (word(bytes, at)?, word(bytes, at + 2)?);
    if flags & VERSION != 0 {
        return None;
    }
    let at = at + 4 + 4 * [CHECKSUM, KEY, SEQUENCE].iter().filter(|&&flag| flags & flag != 0).count();
    match protocol {
        // Type I has no header of its own, nor a sequence number.
        ERSPAN_2 if flags & SEQUENCE == 0 => {
            Some(Inside { tunnel: "erspan", at, ethertype: ETHERNET, has_outer_macs: false, truncated: false })
        }
        ERSPAN_2 | ERSPAN_3 => behind_erspan(bytes, at, protocol == ERSPAN_3),
        ETHERNET | IPV4 | IPV6 => {
            Some(Inside { tunnel: "gre", at, ethertype: protocol, has_outer_macs: false, truncated: false })
        }
        MPLS => behind_labels(bytes, at).map(|labels| Inside { has_outer_macs: false, ..labels }),
        _ => None,
    }
}

/// draft-foschiano-erspan-03: types II and III.
fn behind_erspan(bytes: &[u8], at: usize, is_third: bool) -> Option<Inside> {
    const TRUNCATED: u16 = 0x0400;
    const FRAME_TYPE: u16 = 0x7C00;
    const FRAME_TYPE_IP: u16 = 2 << 10;
    const HAS_SUBHEADER: u16 = 1;
    let truncated = word(bytes, at + 2)? & TRUNCATED != 0;
    let (at, kind) = match is_third {
        false => (at + 8, 0),
        true => {
            let last = word(bytes, at + 10)?;
            (at + if last & HAS_SUBHEADER == 0 { 12 } else { 20 }, last & FRAME_TYPE)
        }
    };
    let ethertype = match (kind, bytes.get(at)? >> 4) {
        (FRAME_TYPE_IP, 4) => IPV4,
        (FRAME_TYPE_IP, _) => IPV6,
        _ => ETHERNET,
    };
    Some(Inside { tunnel: "erspan", at, ethertype, has_outer_macs: false, truncated })
}

/// RFC 7348 and RFC 8926.
fn behind_udp(bytes: &[u8], at: usize) -> Option<Inside> {
    let (port, at) = (word(bytes, at + 2)?, at + UDP_LEN);
    let (tunnel, at, ethertype) = match port {
        VXLAN_PORT => ("vxlan", at + 8, ETHERNET),
        GENEVE_PORT => ("geneve", at + 8 + 4 * usize::from(bytes.get(at)? & 0x3F), word(bytes, at + 2)?),
        _ => return None,
    };
    matches!(ethertype, ETHERNET | IPV4 | IPV6).then_some(Inside {
        tunnel,
        at,
        ethertype,
        has_outer_macs: false,
        truncated: false,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

#[cfg(test)]
mod tests {
    use mrc_wire::WireConfig;

    use super::super::tests::golden;
    use super::super::{Check, capture, check, hex, judge, open};
    use super::*;

    const MACS: &str = "020000000001020000000002";
    fn ip4(protocol: &str, rest: &str) -> String {
        format!("{MACS}0800450000000000000040{protocol}0000c0000201c0000202{rest}")
    }

    fn ip6(next: &str, rest: &str) -> String {
        let (src, dst) = ("20010db8000000000000000000000001", "20010db8000000000000000000000002");
        format!("{MACS}86dd600000000000{next}40{src}{dst}{rest}")
    }

    fn udp(port: u16, rest: &str) -> String {
        format!("c000{port:04x}00000000{rest}")
    }

    /// What begins behind the headers of a tunnel.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Begins {
        Ethernet,
        /// An IP header, to the Ethernet header before the tunnel.
        Ip,
        /// An IP header without an Ethernet header.
        BareIp,
    }

    /// Headers of tunnels, around a packet of this EtherType.
    fn tunnels(ethertype: &str) -> Vec<(&'static [&'static str], Begins, String)> {
        use Begins::{BareIp, Ethernet, Ip};
        let vxlan = udp(4789, "0800000000000700");
        vec![
            (&["vlan"], Ip, format!("{MACS}91000064{ethertype}")),
            (&["vlan"], Ip, format!("{MACS}88a80001810000028100000392000004{ethertype}")),
            (&["mpls"], Ip, format!("{MACS}88470006404000065140")),
            (&["mpls"], Ethernet, format!("{MACS}810000058847000640400006514000000007")),
            (&["gre"], Ethernet, ip4("2f", "00006558")),
            (&["gre"], Ethernet, ip4("2f", "b000655812340000000000070000000a")),
            (&["gre"], BareIp, ip6("2f", &format!("0000{ethertype}"))),
            (&["gre"], Ethernet, ip6("3c", "2f000401040101002000655800000007")),
            (&["erspan"], Ethernet, ip4("2f", "000088be")),
            (&["erspan"], Ethernet, ip4("2f", "100088be000000011001000500000000")),
            (&["erspan"], Ethernet, ip6("2f", "100022eb00000001200100050000000000000000")),
            (&["erspan"], Ethernet, ip4("2f", "100022eb000000012001000500000000000000010000000000000000")),
            (&["erspan"], BareIp, ip4("2f", "100022eb00000001200100050000000000000800")),
            (&["vxlan"], Ethernet, ip4("11", &vxlan)),
            (&["vxlan"], Ethernet, ip6("11", &vxlan)),
            (&["geneve"], Ethernet, ip4("11", &udp(6081, "020065580000070001028001abcdef01"))),
            (&["geneve"], BareIp, ip4("11", &udp(6081, &format!("0000{ethertype}00000700")))),
            (&["mpls"], BareIp, ip4("2f", "0000884700065140")),
            (&["erspan", "vxlan"], Ethernet, ip4("2f", "100088be000000011001000500000000") + &ip4("11", &vxlan)),
            (&["gre", "mpls"], Ip, ip4("2f", "00006558") + MACS + "884700065140"),
        ]
    }

    #[test]
    fn packets_in_tunnels_are_opened() {
        let cfg = WireConfig::default();
        for (name, ethertype) in [("srv6_srh_write_only_ts", "86dd"), ("ipv4_write_only_imm_empty", "0800")] {
            let whole = golden(name);
            for (names, begins, headers) in tunnels(ethertype) {
                let headers = hex(&headers).unwrap();
                let bytes =
                    [&headers[..], &whole.bytes[if begins == Begins::Ethernet { 0 } else { ETH_LEN }..]].concat();
                let packet = capture::frame(None, bytes.len(), bytes);
                assert!(judge(&packet, &cfg).is_err(), "{names:?}");
                let (opened, judged) = open(&packet, &cfg);
                let frame = judged.unwrap_or_else(|why| panic!("{names:?} {headers:02x?}: {why:?}"));
                let opened = opened.unwrap();
                assert_eq!((&opened.tunnels[..], check(&opened, &frame)), (names, Check::Good));
                assert_eq!(
                    (opened.place(opened.wire_len), opened.bytes.len()),
                    (packet.bytes.len(), whole.bytes.len())
                );
                assert_eq!(opened.bytes[ETH_LEN..], whole.bytes[ETH_LEN..]);
                assert_eq!(opened.bare, begins == Begins::BareIp, "{names:?}");
                // Wherever it is cut, nothing breaks, and nobody takes a part for the whole.
                for len in 0..packet.bytes.len() {
                    let cut = capture::frame(None, packet.wire_len, packet.bytes[..len].to_vec());
                    assert!(open(&cut, &cfg).1.is_err() || len > headers.len() + 40, "{names:?} {len}");
                }
            }
        }
    }

    /// A switch says that it cut a frame: it was longer on the wire than its tunnel tells.
    #[test]
    fn a_mirrored_frame_may_be_cut_by_the_switch() {
        let cfg = WireConfig::default();
        let mut whole = golden("srv6_write_only_ts").bytes;
        whole.truncate(whole.len() - 8);
        for (flags, is_read) in [("0005", false), ("0405", true)] {
            let headers = hex(&ip4("2f", &format!("100088be000000011001{flags}00000000"))).unwrap();
            let bytes = [headers, whole.clone()].concat();
            let (opened, judged) = open(&capture::frame(None, bytes.len(), bytes), &cfg);
            assert_eq!(judged.is_ok(), is_read);
            if let Ok(frame) = judged {
                assert_eq!(check(&opened.unwrap(), &frame), Check::Absent);
            }
        }
    }

    #[test]
    fn what_a_tunnel_carries_is_what_is_refused() {
        let cfg = WireConfig::default();
        let arp = format!("{MACS}0806{}", "00".repeat(28));
        let nested = (0..2000).fold(arp.clone(), |inner, _| ip4("11", &udp(4789, &format!("0800000000000700{inner}"))));
        for (bytes, tunnels) in [
            (ip4("11", &udp(4789, &format!("0800000000000700{arp}"))), 1),
            (nested, 8),
            (ip4("06", &"00".repeat(40)), 0),
            (ip4("2f", "0001880b00000000"), 0),
            // What is refused behind a usual tag shows this tag.
            (ip4("06", &"00".repeat(40)).replacen("0800", "810000070800", 1), 0),
            (ip4("06", &"00".repeat(40)).replacen("0800", "910000070800", 1), 1),
        ] {
            let bytes = hex(&bytes).unwrap();
            let (opened, judged) = open(&capture::frame(None, bytes.len(), bytes), &cfg);
            assert!(judged.is_err());
            assert_eq!(opened.map_or(0, |opened| opened.tunnels.len()), tunnels);
        }
    }
}

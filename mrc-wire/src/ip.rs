//! Addresses and the constants of the layers below BTH, wire.md section 2.

use core::fmt;

pub(crate) const ETH_LEN: usize = 14;
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86DD;
/// 802.1Q and 802.1ad.
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88A8];
/// A provider's tag and a customer's.
const MOST_TAGS: usize = 2;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;
pub(crate) const UDP_LEN: usize = 8;
/// Next header values.
pub(crate) const NH_UDP: u8 = 17;
pub(crate) const NH_IPV6: u8 = 41;
pub(crate) const NH_ROUTING: u8 = 43;
/// UDP header, BTH and ICRC: the least a packet can be.
pub(crate) const UDP_LEN_MIN: u16 = 24;

/// What lies behind the Ethernet header and at most two VLAN tags: offset, EtherType, bytes. `None` when it ends early.
//= ETH-002
#[inline(always)]
pub(crate) fn behind_tags(frame: &[u8]) -> Option<(usize, u16, &[u8])> {
    let (eth, mut rest) = frame.split_first_chunk::<ETH_LEN>()?;
    let (mut at, mut ethertype) = (ETH_LEN, u16::from_be_bytes([eth[12], eth[13]]));
    for _ in 0..MOST_TAGS {
        if !ETHERTYPE_TAGS.contains(&ethertype) {
            break;
        }
        let (tag, after) = rest.split_first_chunk::<4>()?;
        (at, ethertype, rest) = (at.wrapping_add(4), u16::from_be_bytes([tag[2], tag[3]]), after);
    }
    Some((at, ethertype, rest))
}

/// An IP address of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ip {
    /// Four bytes, network order.
    V4([u8; 4]),
    /// Sixteen bytes, network order.
    V6([u8; 16]),
}

impl Ip {
    /// Whether this is an IPv6 address.
    #[inline]
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        matches!(self, Self::V6(_))
    }
}

/// Written here because `core`'s own formatting of addresses can panic as far as a linker knows.
impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(b) => dotted(*b, f),
            Self::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, mapped @ ..]) => {
                f.write_str("::ffff:")?;
                dotted(*mapped, f)
            }
            Self::V6(b) => groups(b, f),
        }
    }
}

fn dotted([a, b, c, d]: [u8; 4], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{a}.{b}.{c}.{d}")
}

/// RFC 5952: lower case, no leading zeros, the first longest run of two or more zero groups as `::`.
fn groups(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (pairs, _) = bytes.as_chunks::<2>();
    let (mut best, mut best_len, mut run) = (8usize, 1usize, 0usize);
    for (i, pair) in pairs.iter().enumerate() {
        run = if *pair == [0, 0] { run.wrapping_add(1) } else { 0 };
        if run > best_len {
            (best, best_len) = (i.wrapping_add(1).wrapping_sub(run), run);
        }
    }
    let end = best.wrapping_add(best_len);
    for (i, pair) in pairs.iter().enumerate() {
        if (best..end).contains(&i) {
            if i == best {
                f.write_str("::")?;
            }
            continue;
        }
        let colon = if i == 0 || i == end { "" } else { ":" };
        write!(f, "{colon}{:x}", u16::from_be_bytes(*pair))?;
    }
    Ok(())
}

impl From<core::net::IpAddr> for Ip {
    fn from(addr: core::net::IpAddr) -> Self {
        match addr {
            core::net::IpAddr::V4(a) => Self::V4(a.octets()),
            core::net::IpAddr::V6(a) => Self::V6(a.octets()),
        }
    }
}

impl From<Ip> for core::net::IpAddr {
    fn from(ip: Ip) -> Self {
        match ip {
            Ip::V4(b) => Self::V4(b.into()),
            Ip::V6(b) => Self::V6(b.into()),
        }
    }
}

/// Bytes a packet counts for in congestion accounting: the same with and without SRv6.
#[inline]
#[must_use]
pub const fn nominal_bytes(udp_len: u16) -> u32 {
    //= LEN-008
    (udp_len as u32).wrapping_add(IPV6_LEN as u32)
}

/// Pad bytes after a payload of `len` bytes.
#[inline]
#[must_use]
pub const fn pad_len(len: usize) -> u8 {
    //= LEN-004, BTH-004
    (len.wrapping_neg() & 3) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    //= LEN-004 test
    #[test]
    fn payloads_are_filled_to_four() {
        assert_eq!([0, 1, 2, 3, 4, 13].map(pad_len), [0, 3, 2, 1, 0, 3]);
    }

    //= LEN-008 test
    #[test]
    fn a_packet_weighs_its_udp_length_and_forty() {
        assert_eq!(nominal_bytes(64), 104);
        assert_eq!(nominal_bytes(u16::MAX), 65_575);
    }

    #[test]
    fn addresses_print_in_the_usual_way() {
        assert_eq!(Ip::V4([192, 0, 2, 10]).to_string(), "192.0.2.10");
        let v6 = Ip::V6([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa]);
        assert_eq!(v6.to_string(), "2001:db8:1::a");
        assert_eq!(Ip::from(core::net::IpAddr::from(v6)), v6);
    }

    proptest::proptest! {
        #[test]
        fn addresses_print_as_the_standard_library_does(bytes: [u8; 16], zeros: [bool; 16], mapped: bool) {
            let mut b = bytes;
            for (byte, zero) in b.iter_mut().zip(zeros) {
                if zero {
                    *byte = 0;
                }
            }
            if mapped {
                b[..10].fill(0);
                b[10..12].fill(0xFF);
            }
            for ip in [Ip::V6(b), Ip::V6(bytes), Ip::V4([b[0], b[1], b[2], b[3]])] {
                let std = core::net::IpAddr::from(ip);
                proptest::prop_assert_eq!(ip.to_string(), std.to_string());
            }
        }

        #[test]
        fn runs_of_zero_groups_print_as_the_standard_library_does(mask: u8) {
            let b: [u8; 16] = core::array::from_fn(|i| if mask >> (i / 2) & 1 == 1 { 0 } else { 7 });
            proptest::prop_assert_eq!(Ip::V6(b).to_string(), core::net::Ipv6Addr::from(b).to_string());
        }
    }
}

//! Which packets are ours ([`PacketFilter`]); everything else belongs to the kernel.
//!
//! One rule, three forms: [`PacketFilter::matches`] in plain Rust (the yardstick of the tests), an XDP program
//! (`bpf/xdp.rs`) and a classic socket filter (`bpf/classic.rs`).
//!
//! A frame is taken when it is Ethernet that belongs to no VLAN (untagged, or with one 802.1Q tag of VLAN 0, which carries a
//! priority alone) and
//! * IPv6 with next header 41 or 43 (SRv6 without or with SRH), destination under one of [`PacketFilter::sids`], or
//! * IPv6 with next header 17, or unfragmented IPv4 without options and protocol 17, to one of the UDP ports and one of
//!   [`PacketFilter::addresses`].
//!
//! Where an interface strips VLAN tags, XDP sees the packets of every VLAN without their tag and cannot tell them apart; a
//! packet socket can. Destinations that are ours alone keep such packets out as well.

use std::net::{IpAddr, Ipv6Addr};

/// IANA's port for RoCEv2, the default of MRC.
pub const UDP_PORT_ROCE: u16 = 4791;
/// The port some MRC implementations read in the specification; accepted besides [`UDP_PORT_ROCE`].
pub const UDP_PORT_ALTERNATE: u16 = 4971;

/// An outer IPv6 destination that is ours: a whole address, or its first 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sid {
    address: Ipv6Addr,
    whole: bool,
}

impl Sid {
    /// Exactly `address`: a host SID whose remaining bits are zero, or the port's own address.
    pub const fn exact(address: Ipv6Addr) -> Self {
        Self { address, whole: true }
    }

    /// Any address that shares the first 64 bits of `address`.
    pub const fn prefix64(address: Ipv6Addr) -> Self {
        Self { address, whole: false }
    }

    /// The bytes that are compared.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.address.octets().into_iter().take(if self.whole { 16 } else { 8 }).collect()
    }

    fn contains(&self, octets: &[u8]) -> bool {
        let bytes = if self.whole { 16 } else { 8 };
        octets.get(..bytes) == self.address.octets().get(..bytes)
    }
}

/// The packets a port takes from its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFilter {
    /// Outer destinations of SRv6 packets; at most [`PacketFilter::MAX_SIDS`] are used.
    pub sids: Vec<Sid>,
    /// UDP destination ports; at most [`PacketFilter::MAX_UDP_PORTS`] are used.
    pub udp_ports: Vec<u16>,
    /// Destinations of these UDP packets, at most [`PacketFilter::MAX_ADDRESSES`] of either family; none: any.
    pub addresses: Vec<IpAddr>,
}

/// EtherType of an 802.1Q tag.
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
/// Bits of a tag that name the VLAN; 0 is none.
pub(crate) const VLAN_ID: u16 = 0x0fff;
/// Where the destination is in an Ethernet frame, and the length of the Ethernet header in front of it.
pub(crate) const IPV6_DESTINATION: usize = 14 + 24;
/// As [`IPV6_DESTINATION`], of IPv4.
pub(crate) const IPV4_DESTINATION: usize = 14 + 16;

impl Default for PacketFilter {
    /// No SID; both MRC ports at any address.
    fn default() -> Self {
        Self { sids: Vec::new(), udp_ports: vec![UDP_PORT_ROCE, UDP_PORT_ALTERNATE], addresses: Vec::new() }
    }
}

impl PacketFilter {
    /// Limit of [`PacketFilter::sids`]: keeps jumps of a classic filter within a byte.
    pub const MAX_SIDS: usize = 8;
    /// Limit of [`PacketFilter::udp_ports`].
    pub const MAX_UDP_PORTS: usize = 4;
    /// Limit of [`PacketFilter::addresses`], for each family.
    pub const MAX_ADDRESSES: usize = 8;

    /// Packets to these outer destinations and no others: where packets come under SIDs, bare UDP is the host's own.
    pub fn with_sids(sids: impl IntoIterator<Item = Sid>) -> Self {
        Self { sids: sids.into_iter().collect(), udp_ports: Vec::new(), addresses: Vec::new() }
    }

    /// Bare UDP to both MRC ports of these addresses, and nothing else.
    pub fn with_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { addresses: addresses.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn used_sids(&self) -> &[Sid] {
        self.sids.get(..Self::MAX_SIDS).unwrap_or(&self.sids)
    }

    pub(crate) fn used_ports(&self) -> &[u16] {
        self.udp_ports.get(..Self::MAX_UDP_PORTS).unwrap_or(&self.udp_ports)
    }

    /// The UDP destinations of IPv6 (or IPv4) as bytes.
    pub(crate) fn used_addresses(&self, v6: bool) -> Vec<Vec<u8>> {
        let bytes = |address: &IpAddr| match address {
            IpAddr::V6(address) => address.octets().to_vec(),
            IpAddr::V4(address) => address.octets().to_vec(),
        };
        self.addresses.iter().filter(|a| a.is_ipv6() == v6).take(Self::MAX_ADDRESSES).map(bytes).collect()
    }

    /// Whether the Ethernet frame is ours.
    //= ETH-002
    pub fn matches(&self, frame: &[u8]) -> bool {
        let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        match (half(12), half(14)) {
            // Shorter by the tag: the addresses in front of the EtherType are not looked at.
            (Some(ETHERTYPE_VLAN), Some(tag)) => {
                tag & VLAN_ID == 0 && frame.get(4..).is_some_and(|behind| self.matches_untagged(behind))
            }
            _ => self.matches_untagged(frame),
        }
    }

    fn matches_untagged(&self, frame: &[u8]) -> bool {
        let byte = |at: usize| frame.get(at).copied();
        let half = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
        let udp_at = |at: usize| half(at + 2).is_some_and(|port| self.used_ports().contains(&port));
        let to_us = |at: usize, v6: bool| {
            self.addresses.is_empty()
                || self.used_addresses(v6).iter().any(|own| frame.get(at..at + own.len()) == Some(own))
        };
        match half(12) {
            Some(0x86dd) => match byte(20) {
                Some(41 | 43) => frame
                    .get(IPV6_DESTINATION..54)
                    .is_some_and(|dst| self.used_sids().iter().any(|sid| sid.contains(dst))),
                Some(17) => udp_at(54) && to_us(IPV6_DESTINATION, true),
                _ => false,
            },
            Some(0x0800) => {
                let unfragmented = half(20).is_some_and(|field| field & 0x3fff == 0);
                byte(14) == Some(0x45)
                    && byte(23) == Some(17)
                    && unfragmented
                    && udp_at(34)
                    && to_us(IPV4_DESTINATION, false)
            }
            _ => false,
        }
    }
}

//! Which packets are ours ([`PacketFilter`]); everything else belongs to the kernel.
//!
//! One rule, three forms: [`PacketFilter::matches`] in plain Rust (the yardstick of the tests), an XDP program
//! (`bpf/xdp.rs`) and a classic socket filter (`bpf/classic.rs`).
//!
//! A frame is taken when it is untagged Ethernet and
//! * IPv6 with next header 41 or 43 (SRv6 without or with SRH), destination under one of [`PacketFilter::sids`], or
//! * IPv6 with next header 17, or unfragmented IPv4 without options and protocol 17, to one of the UDP ports.

use std::net::Ipv6Addr;

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

    /// The address as 32-bit words in network order, only those that are compared.
    pub(crate) fn words(&self) -> impl DoubleEndedIterator<Item = (usize, [u8; 4])> + ExactSizeIterator + use<> {
        let octets = self.address.octets();
        let count = if self.whole { 4 } else { 2 };
        (0..count).map(move |i| (4 * i, [octets[4 * i], octets[4 * i + 1], octets[4 * i + 2], octets[4 * i + 3]]))
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
}

impl Default for PacketFilter {
    /// No SID; both MRC ports.
    fn default() -> Self {
        Self { sids: Vec::new(), udp_ports: vec![UDP_PORT_ROCE, UDP_PORT_ALTERNATE] }
    }
}

impl PacketFilter {
    /// Limit of [`PacketFilter::sids`]: keeps jumps of a classic filter within a byte.
    pub const MAX_SIDS: usize = 8;
    /// Limit of [`PacketFilter::udp_ports`].
    pub const MAX_UDP_PORTS: usize = 4;

    /// The default filter plus these outer destinations.
    pub fn with_sids(sids: impl IntoIterator<Item = Sid>) -> Self {
        Self { sids: sids.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn used_sids(&self) -> &[Sid] {
        self.sids.get(..Self::MAX_SIDS).unwrap_or(&self.sids)
    }

    pub(crate) fn used_ports(&self) -> &[u16] {
        self.udp_ports.get(..Self::MAX_UDP_PORTS).unwrap_or(&self.udp_ports)
    }

    /// Whether the Ethernet frame is ours.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let byte = |at: usize| frame.get(at).copied();
        let half = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
        let udp_at = |at: usize| half(at + 2).is_some_and(|port| self.used_ports().contains(&port));
        match half(12) {
            Some(0x86dd) => match byte(20) {
                Some(41 | 43) => {
                    frame.get(38..54).is_some_and(|dst| self.used_sids().iter().any(|sid| sid.contains(dst)))
                }
                Some(17) => udp_at(54),
                _ => false,
            },
            Some(0x0800) => {
                let unfragmented = half(20).is_some_and(|field| field & 0x3fff == 0);
                byte(14) == Some(0x45) && byte(23) == Some(17) && unfragmented && udp_at(34)
            }
            _ => false,
        }
    }
}

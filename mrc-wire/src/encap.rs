//! The layers below UDP, as they are told to a [`FrameTemplate`](crate::FrameTemplate).

use crate::Ip;
use core::fmt;

/// The layers below UDP, for packets of one QP on one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encap {
    /// Address of the sending port.
    pub eth_src: [u8; 6],
    /// Address of the next hop.
    pub eth_dst: [u8; 6],
    /// SRv6 encapsulation, IPv6 only.
    pub outer: Option<Outer>,
    /// Source of the header that carries UDP.
    pub src: Ip,
    /// Destination of the header that carries UDP; same family as `src`.
    pub dst: Ip,
    /// Hop limit or TTL of the header that carries UDP.
    pub hop_limit: u8,
    /// Hop limit of the outer header.
    pub outer_hop_limit: u8,
}

impl Encap {
    /// Hop limit of both headers unless configured.
    //= IP6-006, SRV6-004
    pub const HOP_LIMIT: u8 = 64;

    /// Without encapsulation, default hop limits.
    #[must_use]
    pub const fn plain(eth_src: [u8; 6], eth_dst: [u8; 6], src: Ip, dst: Ip) -> Self {
        let hop_limit = Self::HOP_LIMIT;
        Self { eth_src, eth_dst, outer: None, src, dst, hop_limit, outer_hop_limit: hop_limit }
    }

    /// Checks what types cannot say.
    ///
    /// # Errors
    /// See [`EncapError`]; [`FrameTemplate::new`](crate::FrameTemplate::new) tells what becomes of an unchecked `Encap`.
    pub const fn check(&self) -> Result<(), EncapError> {
        if self.src.is_v6() != self.dst.is_v6() {
            return Err(EncapError::MixedFamilies);
        }
        match &self.outer {
            Some(_) if !self.dst.is_v6() => Err(EncapError::OuterOverIpv4),
            Some(Outer { srh: Some(srh), .. }) if srh.segments_left > 1 => {
                Err(EncapError::SegmentsLeft(srh.segments_left))
            }
            _ => Ok(()),
        }
    }
}

/// Why an [`Encap`] cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncapError {
    /// One address is IPv4, the other IPv6.
    MixedFamilies,
    /// SRv6 around an IPv4 packet.
    OuterOverIpv4,
    /// An SRH of one segment with this many left.
    SegmentsLeft(u8),
}

impl fmt::Display for EncapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MixedFamilies => {
                f.write_str("source and destination address are of different families: use IPv4 or IPv6 for both")
            }
            Self::OuterOverIpv4 => f.write_str(
                "SRv6 cannot carry an IPv4 packet: give the QP IPv6 addresses or leave out the outer header",
            ),
            Self::SegmentsLeft(n) => {
                write!(f, "SRH has {n} segments left but holds one: use 0 (path record) or 1 (path extension)")
            }
        }
    }
}

impl core::error::Error for EncapError {}

/// The outer IPv6 header of SRv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// The sending port's own address.
    pub src: [u8; 16],
    /// uSID container, or the template of one.
    pub dst: [u8; 16],
    /// Segment routing header, where the path needs one.
    pub srh: Option<Srh>,
}

/// A segment routing header with one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Srh {
    /// 0: `segment` records the outer destination as sent. 1: `segment` is the second container.
    pub segments_left: u8,
    /// The segment. With `segments_left` 0 the outer destination of each packet is written instead.
    pub segment: [u8; 16],
}

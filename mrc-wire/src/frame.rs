//! Received frames with every field read, and why one is refused.

use crate::{Body, BthRepr, Ev, Ip, PacketView, WireConfig};
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

/// As [`PacketView::parse`], with every field read.
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
    PacketView::parse(head, wire_len, cfg, is_local).map(|packet| packet.to_frame(cfg))
}

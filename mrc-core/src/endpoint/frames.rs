//! What engine and driver hand each other with a frame: what is known of a received one, where its payload goes, and how one
//! that leaves is put together.

use core::ops::Range;

use mrc_wire::{Ev, PortNum, Psn};

use super::PlaceToken;
use crate::{error::Discard, mem::MrHandle, qp::QpHandle};

/// What the driver knows about a received frame.
#[derive(Clone, Copy, Debug)]
pub struct RxMeta {
    /// Port it arrived on.
    pub port: PortNum,
    /// Bytes of the whole frame, from the Ethernet header on, without FCS.
    pub wire_len: usize,
    /// Who checks the ICRC.
    pub icrc: IcrcCheck,
}

/// State of a frame's ICRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcrcCheck {
    /// The engine checks it; the frame must be given whole.
    Verify,
    /// Hardware or driver checked it: good.
    Valid,
    /// Hardware or driver checked it: bad (or absent, as in a trimmed packet).
    Invalid,
}

/// What a frame asks the driver to do. Keys, rights and bounds are already checked. The bytes must be in memory before the
/// driver polls completions or frames to send, which may tell the application or the peer that they are; or later, where
/// it reports when they are ([`crate::PlacementMode`]).
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Received {
    /// Nothing to move.
    Nothing,
    /// Move the payload.
    Place(Placement),
}

/// Where a payload goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Region.
    pub mr: MrHandle,
    /// What [`crate::Endpoint::placed`] and [`crate::Endpoint::place_failed`] want to know.
    pub token: PlaceToken,
    /// The queue pair and packet that brought it.
    pub qp: QpHandle,
    /// See `qp`.
    pub psn: Psn,
    /// Offset of the first byte in the region.
    pub offset: u64,
    /// Bytes of the frame that are payload.
    pub payload: Range<usize>,
}

/// A frame to send: headers lie at the start of the caller's buffer; payload, pad and ICRC follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Transmit {
    /// Bytes of headers written, from the Ethernet header to the last transport header.
    pub header_len: usize,
    /// Offset of the IP header that carries UDP: the ICRC starts there.
    pub l3_offset: usize,
    /// Payload to append.
    pub payload: Option<PayloadRef>,
    /// Zero bytes to append after the payload; the 4 ICRC bytes follow.
    pub pad: u8,
    /// Port to send through.
    pub port: PortNum,
    /// Entropy value of the packet.
    pub ev: Ev,
    /// DSCP and ECN as in the IP header.
    pub traffic_class: u8,
}

impl Transmit {
    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> usize {
        let payload = self.payload.map_or(0, |payload| payload.len as usize);
        let behind = payload.saturating_add(usize::from(self.pad)).saturating_add(mrc_wire::icrc::LEN);
        self.header_len.saturating_add(behind)
    }
}

/// Payload by reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadRef {
    /// Region.
    pub mr: MrHandle,
    /// Offset of the first byte in the region.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Where received frames come from in one call of [`crate::Endpoint::receive`]: what a driver implements over its rings.
pub trait FrameSource {
    /// The next frame, as for [`crate::Endpoint::handle_packet`]; `None` ends the call.
    fn next(&mut self) -> Option<(RxMeta, &[u8])>;

    /// The head of the frame `ahead` frames behind the one that [`Self::next`] gives next, where the source knows it by now: with
    /// many QPs the engine reads together what several frames need, in place of waiting for memory with each. Nothing depends on it.
    fn peek(&self, ahead: usize) -> Option<&[u8]> {
        let _ = ahead;
        None
    }

    /// What became of it: payload to move, or the reason why it had no effect.
    fn done(&mut self, result: Result<Received, Discard>);
}

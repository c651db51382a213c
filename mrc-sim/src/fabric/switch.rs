//! A switch: its scheme, its counters, the reasons for not forwarding; and what queues read of headers (DSCP) and write there
//! (marks). Ways to hosts are `scheme`'s, queues and links the port's.

use std::collections::BTreeMap;

use mrc_core::{Instant, Rng};
use mrc_wire::DscpPlan;

use super::packet::Fifo;
use super::port::Port;
use super::scheme::{Requests, Routes, SwitchCtx, SwitchScheme};
use super::topology::PortId;

/// Offset of the outer IPv6 header, behind an untagged Ethernet header.
const IP: usize = 14;
/// Ethernet and outer IPv6 header, all a switch looks at.
pub(crate) const HEAD: usize = IP + 40;

/// Why a switch did not forward a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoForward {
    /// The frame is not IPv6 or ends before its header does.
    #[error("frame is not IPv6: the fabric forwards by IPv6 destination only; encapsulate it")]
    NotIpv6,
    /// The destination lies outside the locator block.
    #[error("destination is outside the fabric's locator block: check the block of the path template")]
    ForeignBlock,
    /// No neighbour has the next uSID.
    #[error("no route to the next micro-SID: the path names a node that is not this switch's neighbour")]
    NoRoute,
    /// The path ends at this switch.
    #[error("the micro-SID list ends at a switch: the path lacks its host")]
    EndsHere,
    /// The hop limit ran out.
    #[error("hop limit exhausted: the path loops or its hop limit is too small")]
    HopLimit,
    /// The switch is broken and does not know it.
    #[error("switch is silent: a scheduled fault makes it drop everything with its carriers up")]
    Silent,
}

/// What one switch has seen, all ports together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchCounters {
    /// Packets handed to an egress port, which may still drop them.
    pub forwarded: u64,
    /// Refusals, in the order of [`NoForward`].
    pub refused: [u64; 6],
    /// Refusals of packets in the control class.
    pub refused_control: u64,
}

pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) counters: SwitchCounters,
    /// Takes everything in and sends nothing on, with all its carriers up.
    pub(crate) silent: bool,
    pub(crate) down: bool,
    /// Rate of all its ports.
    pub(crate) rate_bps: u64,
    /// Size of the buffer that its ports share, and what of it holds data, in bytes; both 0 without such a buffer.
    pub(crate) buffer: u64,
    pub(crate) buffered: u64,
    pub(crate) routes: Routes,
    scheme: Box<dyn SwitchScheme>,
    /// See [`SwitchScheme::hooks_dequeue`].
    pub(crate) hooks_dequeue: bool,
    /// The scheme's random numbers.
    pub(crate) rng: Rng,
    /// Packets that wait for [`SwitchCtx::release`], by number of the queue.
    pub(crate) held: BTreeMap<u32, (PortId, Fifo)>,
}

impl Switch {
    pub(crate) fn new(name: String, routes: Routes, scheme: Box<dyn SwitchScheme>, salt: u64) -> Self {
        Self {
            name,
            counters: SwitchCounters::default(),
            silent: false,
            down: false,
            rate_bps: 0,
            buffer: 0,
            buffered: 0,
            routes,
            hooks_dequeue: scheme.hooks_dequeue(),
            scheme,
            rng: Rng::new(!salt),
            held: BTreeMap::new(),
        }
    }

    /// Bytes of the scheme's tables.
    pub(crate) fn state_bytes(&self) -> usize {
        self.scheme.state_bytes()
    }

    /// The scheme, and what it may see and ask for now.
    #[inline]
    pub(crate) fn scheme<'a>(
        &'a mut self,
        now: Instant,
        ports: &'a [Port],
        requests: &'a mut Requests,
    ) -> (&'a mut dyn SwitchScheme, SwitchCtx<'a>) {
        let choice = std::cell::Cell::new(0);
        let ctx = SwitchCtx { now, ports, routes: &self.routes, choice, rng: &mut self.rng, requests };
        (&mut *self.scheme, ctx)
    }
}

/// Whether the frame's code point allows its payload to be cut off.
pub(crate) fn is_trimmable(frame: &[u8]) -> bool {
    let plan = DscpPlan::default();
    let dscp = dscp(frame);
    dscp == plan.trimmable || dscp == plan.trimmable_retx
}

/// Writes the code point of a trimmed packet and takes back its ECN capability: it now travels in the control class.
//= DSCP-002
pub(crate) fn mark_trimmed(frame: &mut [u8], last_hop: bool) {
    let plan = DscpPlan::default();
    let dscp = if last_hop { plan.trimmed_lasthop } else { plan.trimmed };
    if let Some(head) = frame.first_chunk_mut::<HEAD>() {
        head[IP] = head[IP] & 0xf0 | dscp >> 2;
        head[IP + 1] = head[IP + 1] & 0x0f | dscp << 6;
    }
}

/// DSCP of the outer IPv6 header, 0 for anything else.
#[inline]
pub(crate) fn dscp(frame: &[u8]) -> u8 {
    match frame.first_chunk::<HEAD>() {
        Some(head) if head[IP] >> 4 == 6 => (head[IP] << 4 | head[IP + 1] >> 4) >> 2,
        _ => 0,
    }
}

/// Sets CE in the outer IPv6 header if the sender declared it can take it; returns whether it did.
pub(crate) fn mark_ce(frame: &mut [u8]) -> bool {
    match frame.first_chunk_mut::<HEAD>() {
        Some(head) if head[IP] >> 4 == 6 && head[IP + 1] >> 4 & 0b11 != 0 => {
            head[IP + 1] |= 0b11 << 4;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(traffic_class: u8) -> [u8; HEAD] {
        let mut frame = [0; HEAD];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[IP] = 0x60 | traffic_class >> 4;
        frame[IP + 1] = traffic_class << 4;
        frame
    }

    #[test]
    fn traffic_class_bits_are_where_ipv6_has_them() {
        let mut packet = frame(46 << 2 | 0b10);
        assert_eq!(dscp(&packet), 46);
        assert!(mark_ce(&mut packet));
        assert_eq!(packet[IP + 1] >> 4 & 0b11, 0b11);
        assert_eq!(dscp(&packet), 46);
        assert!(!mark_ce(&mut frame(46 << 2)));
    }
}

//! What a switch does to a frame: SRv6 uN (End with NEXT-CSID) on the real header bytes, then a /48 route to a port.
//! Owns the routes and the reasons for not forwarding; queues and links are the port's.

use mrc_wire::srv6;

/// Offset of the outer IPv6 header, behind an untagged Ethernet header.
const IP: usize = 14;
const HOP_LIMIT: usize = IP + 7;
const DST: usize = IP + 24;
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
}

/// What one switch has seen, all ports together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchCounters {
    /// Packets handed to an egress port, which may still drop them.
    pub forwarded: u64,
    /// Refusals, in the order of [`NoForward`].
    pub refused: [u64; 5],
}

/// /48 routes by uSID: two levels of 256, so that a switch costs a few KiB whatever its uSIDs.
struct Routes {
    pages: [u8; 256],
    ports: Vec<[u32; 256]>,
}

const NO_PORT: u32 = u32::MAX;

impl Routes {
    fn new() -> Self {
        Self { pages: [0; 256], ports: vec![[NO_PORT; 256]] }
    }

    fn set(&mut self, usid: u16, port: u32) {
        let page = &mut self.pages[usize::from(usid >> 8)];
        if *page == 0 {
            *page = self.ports.len() as u8;
            self.ports.push([NO_PORT; 256]);
        }
        self.ports[usize::from(*page)][usize::from(usid & 0xff)] = port;
    }

    fn find(&self, usid: u16) -> Option<u32> {
        let page = self.pages[usize::from(usid >> 8)];
        let port = self.ports[usize::from(page)][usize::from(usid & 0xff)];
        (port != NO_PORT).then_some(port)
    }
}

pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) counters: SwitchCounters,
    block: [u8; 4],
    usid: u16,
    routes: Routes,
}

impl Switch {
    pub(crate) fn new(name: String, block: u32, usid: u16) -> Self {
        let counters = SwitchCounters::default();
        Self { name, counters, block: block.to_be_bytes(), usid, routes: Routes::new() }
    }

    /// Adds the route to a neighbour's /48. At most 255 different upper bytes of uSIDs.
    pub(crate) fn add_route(&mut self, usid: u16, port: u32) {
        self.routes.set(usid, port);
    }

    /// Processes a frame in place as the kernel's uN does and returns the egress port.
    pub(crate) fn forward(&mut self, frame: &mut [u8]) -> Result<u32, NoForward> {
        let result = self.route(frame);
        match result {
            Ok(_) => self.counters.forwarded += 1,
            Err(reason) => self.counters.refused[reason as usize] += 1,
        }
        result
    }

    fn route(&self, frame: &mut [u8]) -> Result<u32, NoForward> {
        let head: &mut [u8; HEAD] = frame.first_chunk_mut().ok_or(NoForward::NotIpv6)?;
        if head[12..14] != [0x86, 0xdd] || head[IP] >> 4 != 6 {
            return Err(NoForward::NotIpv6);
        }
        let dst: &mut [u8; 16] = (&mut head[DST..DST + 16]).try_into().map_err(|_| NoForward::NotIpv6)?;
        if dst[..4] != self.block {
            return Err(NoForward::ForeignBlock);
        }
        let mut next = u16::from_be_bytes([dst[4], dst[5]]);
        if next == self.usid {
            if dst[6..] == [0; 10] {
                return Err(NoForward::EndsHere);
            }
            *dst = srv6::usid_shift(dst);
            next = u16::from_be_bytes([dst[4], dst[5]]);
        }
        let port = self.routes.find(next).ok_or(NoForward::NoRoute)?;
        if head[HOP_LIMIT] <= 1 {
            return Err(NoForward::HopLimit);
        }
        head[HOP_LIMIT] -= 1;
        Ok(port)
    }
}

/// DSCP of the outer IPv6 header, 0 for anything else.
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
    use crate::address::UsidPlan;

    fn frame(dst: [u8; 16], traffic_class: u8) -> [u8; HEAD] {
        let mut frame = [0; HEAD];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[IP] = 0x60 | traffic_class >> 4;
        frame[IP + 1] = traffic_class << 4;
        frame[HOP_LIMIT] = 64;
        frame[DST..].copy_from_slice(&dst);
        frame
    }

    fn switch() -> (UsidPlan, Switch) {
        let plan = UsidPlan::default();
        let mut switch = Switch::new("t0".into(), plan.block, plan.t0(0, 1));
        switch.add_route(plan.t1(0, 3), 7);
        switch.add_route(plan.host(0, 2), 8);
        (plan, switch)
    }

    #[test]
    fn own_sid_is_shifted_out_and_the_next_one_routed() {
        let (plan, mut switch) = switch();
        let mut packet = frame(plan.container(&[plan.t0(0, 1), plan.t1(0, 3), plan.t0(0, 2), 0x3009]), 0);
        assert_eq!(switch.forward(&mut packet), Ok(7));
        assert_eq!(packet[DST..], plan.container(&[plan.t1(0, 3), plan.t0(0, 2), 0x3009]));
        assert_eq!(packet[HOP_LIMIT], 63);
        // A neighbour's own SID needs no shift, as a /48 route needs none.
        let mut packet = frame(plan.sid(plan.host(0, 2)), 0);
        assert_eq!(switch.forward(&mut packet), Ok(8));
        assert_eq!(packet[DST..], plan.sid(plan.host(0, 2)));
        assert_eq!(switch.counters.forwarded, 2);
    }

    #[test]
    fn every_refusal_has_its_reason_and_counter() {
        let (plan, mut switch) = switch();
        let t1 = plan.container(&[plan.t0(0, 1), plan.t1(0, 3), 0x1002, 0x3001]);
        let mut ipv4 = frame(t1, 0);
        ipv4[12..14].copy_from_slice(&[8, 0]);
        let mut foreign = frame(t1, 0);
        foreign[DST] = 0x20;
        let mut no_route = frame(plan.container(&[plan.t0(0, 1), plan.t1(0, 4), 0x1002, 0x3001]), 0);
        let mut ends = frame(plan.sid(plan.t0(0, 1)), 0);
        let mut old = frame(t1, 0);
        old[HOP_LIMIT] = 1;
        assert_eq!(switch.forward(&mut ipv4), Err(NoForward::NotIpv6));
        assert_eq!(switch.forward(&mut ipv4[..40]), Err(NoForward::NotIpv6));
        assert_eq!(switch.forward(&mut foreign), Err(NoForward::ForeignBlock));
        assert_eq!(switch.forward(&mut no_route), Err(NoForward::NoRoute));
        assert_eq!(switch.forward(&mut ends), Err(NoForward::EndsHere));
        assert_eq!(switch.forward(&mut old), Err(NoForward::HopLimit));
        assert_eq!(switch.counters, SwitchCounters { forwarded: 0, refused: [2, 1, 1, 1, 1] });
    }

    #[test]
    fn traffic_class_bits_are_where_ipv6_has_them() {
        let mut packet = frame([0; 16], 46 << 2 | 0b10);
        assert_eq!(dscp(&packet), 46);
        assert!(mark_ce(&mut packet));
        assert_eq!(packet[IP + 1] >> 4 & 0b11, 0b11);
        assert_eq!(dscp(&packet), 46);
        assert!(!mark_ce(&mut frame([0; 16], 46 << 2)));
    }
}

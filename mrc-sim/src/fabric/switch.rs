//! What a switch does to a frame: SRv6 uN (End with NEXT-CSID) on the real header bytes, then a /48 route to a port.
//! Owns the routes and the reasons for not forwarding; queues and links are the port's.

use mrc_core::Rng;
use mrc_wire::{DscpPlan, srv6};

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

/// How switches choose the way up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forwarding {
    /// The sender wrote the path into the outer destination: uSID shift, no choice.
    #[default]
    Srv6,
    /// The first STEV field (EV bits 31 to 22) indexes the uplinks.
    Stev,
    /// A hash of addresses and EV (UDP source port), different in every switch.
    Ecmp,
    /// Uplinks in turn, packet by packet, in a new random order every five rounds: in one order, hosts that send in step
    /// would each keep to one uplink.
    RoundRobin,
    /// The uplink with the shortest queue, without the frame being sent; by a coin among equals.
    Adaptive,
}

/// Routes of a switch that forwards by the host's address: arithmetic on the numbering of the topology.
#[derive(Clone)]
pub(crate) struct IpRoutes {
    pub(crate) mode: Forwarding,
    pub(crate) hosts: u32,
    /// Hosts below this switch: all of a T1's, a block of a T0's.
    pub(crate) first_host: u32,
    pub(crate) hosts_below: u32,
    /// Egress port of the first group below, and distance of the ports of two neighbouring groups.
    pub(crate) down_port: u32,
    pub(crate) down_stride: u32,
    /// Hosts of a group: 1 below a T0, a leaf's below a T1.
    pub(crate) group: u32,
    /// All uplinks.
    pub(crate) uplinks: Vec<u32>,
    /// Uplinks that carry.
    pub(crate) live: Vec<u32>,
    pub(crate) turn: u32,
    pub(crate) salt: u64,
    pub(crate) rng: Rng,
}

/// Rounds over all uplinks before [`Forwarding::RoundRobin`] draws a new order.
const ROUNDS: u32 = 5;

impl Default for IpRoutes {
    fn default() -> Self {
        Self {
            mode: Forwarding::Srv6,
            hosts: 0,
            first_host: 0,
            hosts_below: 0,
            down_port: 0,
            down_stride: 0,
            group: 1,
            uplinks: Vec::new(),
            live: Vec::new(),
            turn: 0,
            salt: 0,
            rng: Rng::new(0),
        }
    }
}

impl IpRoutes {
    /// An uplink came back or went.
    pub(crate) fn set_uplink(&mut self, port: u32, up: bool) {
        self.live.retain(|&other| other != port);
        if up {
            self.live.push(port);
        }
        self.live.sort_unstable();
        self.turn = 0;
    }

    fn find(&mut self, head: &[u8], queued: impl Fn(u32) -> u32) -> Result<u32, NoForward> {
        let frame = head.first_chunk::<{ HEAD + 8 }>().ok_or(NoForward::NotIpv6)?;
        let word = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let host = word(DST + 12).wrapping_sub(1);
        if host >= self.hosts {
            return Err(NoForward::NoRoute);
        }
        let below = host.wrapping_sub(self.first_host);
        if below < self.hosts_below {
            return Ok(self.down_port + below / self.group * self.down_stride);
        }
        let count = self.live.len() as u32;
        if count == 0 {
            return Err(NoForward::NoRoute);
        }
        let entropy = word(IP) << 16 | word(HEAD) >> 16;
        let choice = match self.mode {
            Forwarding::Srv6 | Forwarding::Ecmp => {
                let flow = u64::from(word(DST - 4)) << 48 ^ u64::from(host) << 20 ^ u64::from(entropy & 0xffff);
                (((mix(flow ^ self.salt) >> 32) * u64::from(count)) >> 32) as u32
            }
            Forwarding::Stev => {
                // Only the EVs of an uplink without carrier move: the others keep the paths that their senders know.
                let port = self.uplinks[(entropy >> 22) as usize % self.uplinks.len()];
                match self.live.binary_search(&port) {
                    Ok(_) => return Ok(port),
                    Err(_) => (entropy >> 22) % count,
                }
            }
            Forwarding::RoundRobin => {
                if self.turn.is_multiple_of(ROUNDS * count) {
                    self.turn = 0;
                    (1..count).rev().for_each(|last| self.live.swap(last as usize, self.rng.below(last + 1) as usize));
                }
                self.turn += 1;
                (self.turn - 1) % count
            }
            Forwarding::Adaptive => {
                // By a coin among equals: in turn, hosts in step would each keep to one uplink.
                let (mut least, mut equals, mut choice) = (u32::MAX, 0, 0);
                for (nth, &port) in (0..).zip(&self.live) {
                    let bytes = queued(port);
                    if bytes < least {
                        (least, equals, choice) = (bytes, 1, nth);
                    } else if bytes == least {
                        equals += 1;
                        choice = if self.rng.below(equals) == 0 { nth } else { choice };
                    }
                }
                choice
            }
        };
        Ok(self.live[choice as usize])
    }
}

/// A 64-bit finaliser; switches of real fabrics use CRCs, what counts is that neighbouring inputs part.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
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
    block: [u8; 4],
    usid: u16,
    routes: Routes,
    pub(crate) ip: IpRoutes,
}

impl Switch {
    pub(crate) fn new(name: String, block: u32, usid: u16, ip: IpRoutes) -> Self {
        let counters = SwitchCounters::default();
        Self {
            name,
            counters,
            silent: false,
            down: false,
            rate_bps: 0,
            buffer: 0,
            buffered: 0,
            block: block.to_be_bytes(),
            usid,
            routes: Routes::new(),
            ip,
        }
    }

    /// Adds the route to a neighbour's /48. At most 255 different upper bytes of uSIDs.
    pub(crate) fn add_route(&mut self, usid: u16, port: u32) {
        self.routes.set(usid, port);
    }

    /// Processes a frame in place as the kernel's uN does, or an IP router, and returns the egress port. `queued` tells how
    /// many bytes wait before a port.
    pub(crate) fn forward(&mut self, frame: &mut [u8], queued: impl Fn(u32) -> u32) -> Result<u32, NoForward> {
        let result = match self.ip.mode {
            _ if self.silent => Err(NoForward::Silent),
            Forwarding::Srv6 => self.route(frame),
            _ => self.route_ip(frame, queued),
        };
        match result {
            Ok(_) => self.counters.forwarded += 1,
            Err(reason) => self.counters.refused[reason as usize] += 1,
        }
        result
    }

    fn route_ip(&mut self, frame: &mut [u8], queued: impl Fn(u32) -> u32) -> Result<u32, NoForward> {
        let head: &mut [u8; HEAD] = frame.first_chunk_mut().ok_or(NoForward::NotIpv6)?;
        if head[12..14] != [0x86, 0xdd] || head[IP] >> 4 != 6 {
            return Err(NoForward::NotIpv6);
        }
        if head[HOP_LIMIT] <= 1 {
            return Err(NoForward::HopLimit);
        }
        head[HOP_LIMIT] -= 1;
        self.ip.find(frame, queued)
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
    use crate::fabric::address::UsidPlan;

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
        let mut switch = Switch::new("t0".into(), plan.block, plan.t0(0, 1), IpRoutes::default());
        switch.add_route(plan.t1(0, 3), 7);
        switch.add_route(plan.host(0, 2), 8);
        (plan, switch)
    }

    #[test]
    fn the_evs_of_other_uplinks_keep_their_paths_when_one_fails() {
        let uplinks = vec![10, 12, 14, 16];
        let mut routes = IpRoutes { mode: Forwarding::Stev, hosts: 8, hosts_below: 4, ..IpRoutes::default() };
        (routes.live, routes.uplinks) = (uplinks.clone(), uplinks);
        let mut dst = [0; 16];
        dst[15] = 6;
        let ports = |routes: &mut IpRoutes| {
            [0u16, 1, 2, 3, 4].map(|uplink| {
                let mut packet = [frame(dst, 0).as_slice(), &[0; 8]].concat();
                // The upper half of the EV is in the flow label.
                packet[IP + 2..IP + 4].copy_from_slice(&(uplink << 6).to_be_bytes());
                routes.find(&packet, |_| 0).unwrap()
            })
        };
        assert_eq!(ports(&mut routes), [10, 12, 14, 16, 10]);
        routes.set_uplink(12, false);
        assert_eq!(ports(&mut routes), [10, 14, 14, 16, 10], "only those of the uplink without carrier move");
        routes.set_uplink(12, true);
        assert_eq!(ports(&mut routes), [10, 12, 14, 16, 10]);
    }

    #[test]
    fn own_sid_is_shifted_out_and_the_next_one_routed() {
        let (plan, mut switch) = switch();
        let mut packet = frame(plan.container(&[plan.t0(0, 1), plan.t1(0, 3), plan.t0(0, 2), 0x3009]), 0);
        assert_eq!(switch.forward(&mut packet, |_| 0), Ok(7));
        assert_eq!(packet[DST..], plan.container(&[plan.t1(0, 3), plan.t0(0, 2), 0x3009]));
        assert_eq!(packet[HOP_LIMIT], 63);
        // A neighbour's own SID needs no shift, as a /48 route needs none.
        let mut packet = frame(plan.sid(plan.host(0, 2)), 0);
        assert_eq!(switch.forward(&mut packet, |_| 0), Ok(8));
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
        assert_eq!(switch.forward(&mut ipv4, |_| 0), Err(NoForward::NotIpv6));
        assert_eq!(switch.forward(&mut ipv4[..40], |_| 0), Err(NoForward::NotIpv6));
        assert_eq!(switch.forward(&mut foreign, |_| 0), Err(NoForward::ForeignBlock));
        assert_eq!(switch.forward(&mut no_route, |_| 0), Err(NoForward::NoRoute));
        assert_eq!(switch.forward(&mut ends, |_| 0), Err(NoForward::EndsHere));
        assert_eq!(switch.forward(&mut old, |_| 0), Err(NoForward::HopLimit));
        assert_eq!(switch.counters, SwitchCounters { forwarded: 0, refused: [2, 1, 1, 1, 1, 0], refused_control: 0 });
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

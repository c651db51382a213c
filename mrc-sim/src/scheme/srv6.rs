//! SRv6 with micro-SIDs: what the kernel's uN behaviour (End with NEXT-CSID) does on the real header bytes, then a /48 route
//! to a port.

use std::sync::Arc;

use mrc_wire::srv6;

use crate::fabric::{
    Clos, NoForward, Packet, PathNames, PortId, SchemeInfo, SidTable, Site, SwitchCtx, SwitchScheme, Verdict,
};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "srv6",
    about: "The sender wrote the path: uSID shift.",
    paths: PathNames::MicroSids,
    params: &[],
    check: None,
    build: |site, _| Box::new(Srv6::new(site)),
};

/// Offset of the outer IPv6 header, behind an untagged Ethernet header.
const IP: usize = 14;
const HOP_LIMIT: usize = IP + 7;
const DST: usize = IP + 24;
const HEAD: usize = IP + 40;
const NO_PORT: u32 = u32::MAX;

struct Srv6 {
    block: [u8; 4],
    usid: u16,
    /// /48 routes by uSID: two levels of 256, so that a switch costs a few KiB whatever its uSIDs.
    pages: [u8; 256],
    ports: Vec<[u32; 256]>,
}

impl Srv6 {
    fn new(site: &Site<'_>) -> Self {
        let &Site { clos, plane, spine, index, .. } = site;
        let plan = clos.plan();
        let usid = if spine { plan.t1(plane, index as u8) } else { plan.t0(plane, index) };
        let mut scheme = Self { block: clos.block.to_be_bytes(), usid, pages: [0; 256], ports: vec![[NO_PORT; 256]] };
        if spine {
            scheme.routes_of_spine(clos, plane, index);
        } else {
            scheme.routes_of_leaf(clos, plane, index);
        }
        scheme
    }

    fn routes_of_spine(&mut self, clos: &Clos, plane: u8, t1: u16) {
        for t0 in 0..clos.t0 {
            self.set(clos.plan().t0(plane, t0), clos.fabric_link_id(plane, t0, t1).upper());
        }
    }

    fn routes_of_leaf(&mut self, clos: &Clos, plane: u8, t0: u16) {
        let plan = clos.plan();
        let first = u32::from(t0) * clos.hosts_per_t0();
        for host in first..(first + clos.hosts_per_t0()).min(clos.hosts) {
            self.set(plan.host(plane, clos.host_index(host)), clos.host_link_id(plane, host).upper());
        }
        for t1 in 0..clos.t1 {
            self.set(plan.t1(plane, t1 as u8), clos.fabric_link_id(plane, t0, t1).lower());
        }
        if clos.is_dumbbell() {
            self.set(plan.t0(plane, 1 - t0), clos.cross_port(plane, t0));
        }
    }

    fn set(&mut self, usid: u16, port: PortId) {
        let page = &mut self.pages[usize::from(usid >> 8)];
        if *page == 0 {
            *page = self.ports.len() as u8;
            self.ports.push([NO_PORT; 256]);
        }
        self.ports[usize::from(*page)][usize::from(usid & 0xff)] = port.0;
    }

    fn find(&self, usid: u16) -> Option<PortId> {
        let page = self.pages[usize::from(usid >> 8)];
        let port = self.ports[usize::from(page)][usize::from(usid & 0xff)];
        (port != NO_PORT).then_some(PortId(port))
    }

    /// The port of a packet that nothing is wrong with.
    fn foresee(&self, frame: &[u8]) -> Option<PortId> {
        let dst = frame.get(DST + 4..DST + 8)?;
        let [first, second] = [u16::from_be_bytes([dst[0], dst[1]]), u16::from_be_bytes([dst[2], dst[3]])];
        self.find(if first == self.usid { second } else { first })
    }

    fn route(&self, frame: &mut [u8]) -> Result<PortId, NoForward> {
        let head = head_of(frame, self.block)?;
        let dst: &mut [u8; 16] = (&mut head[DST..DST + 16]).try_into().map_err(|_| NoForward::NotIpv6)?;
        let mut next = u16::from_be_bytes([dst[4], dst[5]]);
        if next == self.usid {
            if dst[6..] == [0; 10] {
                return Err(NoForward::EndsHere);
            }
            *dst = srv6::usid_shift(dst);
            next = u16::from_be_bytes([dst[4], dst[5]]);
        }
        let port = self.find(next).ok_or(NoForward::NoRoute)?;
        if head[HOP_LIMIT] <= 1 {
            return Err(NoForward::HopLimit);
        }
        head[HOP_LIMIT] -= 1;
        Ok(port)
    }
}

/// The headers of a packet for a destination of this block.
fn head_of(frame: &mut [u8], block: [u8; 4]) -> Result<&mut [u8; HEAD], NoForward> {
    let head: &mut [u8; HEAD] = frame.first_chunk_mut().ok_or(NoForward::NotIpv6)?;
    if head[12..14] != [0x86, 0xdd] || head[IP] >> 4 != 6 {
        return Err(NoForward::NotIpv6);
    }
    if head[DST..DST + 4] != block { Err(NoForward::ForeignBlock) } else { Ok(head) }
}

/// The same in a graph: a micro-SID may be several links away, and its lowest bits choose among parallel ways.
struct Srv6OfGraph {
    block: [u8; 4],
    switch: u32,
    /// Bits of a micro-SID that number parallel ways.
    width: u32,
    table: Arc<SidTable>,
}

pub(crate) fn of_graph(block: u32, switch: u32, width: u32, table: Arc<SidTable>) -> Box<dyn SwitchScheme> {
    Box::new(Srv6OfGraph { block: block.to_be_bytes(), switch, width, table })
}

impl Srv6OfGraph {
    fn route(&self, frame: &mut [u8]) -> Result<PortId, NoForward> {
        let head = head_of(frame, self.block)?;
        let dst: &mut [u8; 16] = (&mut head[DST..DST + 16]).try_into().map_err(|_| NoForward::NotIpv6)?;
        let mut way = 0;
        let mut next = u16::from_be_bytes([dst[4], dst[5]]);
        while u32::from(next) >> self.width == self.switch + 1 {
            if dst[6..] == [0; 10] {
                return Err(NoForward::EndsHere);
            }
            way = usize::from(next) & ((1 << self.width) - 1);
            *dst = srv6::usid_shift(dst);
            next = u16::from_be_bytes([dst[4], dst[5]]);
        }
        let ports = match self.table.hosts.binary_search_by_key(&next, |(sid, _)| *sid) {
            Ok(at) => &self.table.hosts[at].1,
            Err(_) => {
                way = usize::from(next) & ((1 << self.width) - 1);
                let switch = (u32::from(next) >> self.width).wrapping_sub(1);
                let at = self.table.switches.binary_search_by_key(&switch, |(switch, _)| *switch);
                &self.table.switches[at.map_err(|_| NoForward::NoRoute)?].1
            }
        };
        let port = ports[way % ports.len()];
        if head[HOP_LIMIT] <= 1 {
            return Err(NoForward::HopLimit);
        }
        head[HOP_LIMIT] -= 1;
        Ok(port)
    }
}

impl SwitchScheme for Srv6OfGraph {
    fn forward(&mut self, _: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        self.route(packet.header_mut()).map(Verdict::To)
    }
}

impl SwitchScheme for Srv6 {
    fn forward(&mut self, _: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        self.route(packet.header_mut()).map(Verdict::To)
    }

    fn foresee(&self, _: &SwitchCtx<'_>, packet: &Packet) -> Option<PortId> {
        self.foresee(packet.header())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T0 b of a plane with four T1s.
    fn switch() -> (Clos, Srv6) {
        let clos = Clos { planes: 1, t0: 3, t1: 4, hosts: 6, ..Clos::default() };
        let scheme = Srv6::new(&Site { clos: &clos, plane: 0, spine: false, index: 1, salt: 0 });
        (clos, scheme)
    }

    fn frame(dst: [u8; 16]) -> [u8; HEAD] {
        let mut frame = [0; HEAD];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[IP] = 0x60;
        frame[HOP_LIMIT] = 64;
        frame[DST..].copy_from_slice(&dst);
        frame
    }

    #[test]
    fn own_sid_is_shifted_out_and_the_next_one_routed() {
        let (clos, switch) = switch();
        let plan = clos.plan();
        let mut packet = frame(plan.container(&[plan.t0(0, 1), plan.t1(0, 3), plan.t0(0, 2), 0x3009]));
        assert_eq!(switch.foresee(&packet), Some(clos.fabric_link_id(0, 1, 3).lower()));
        assert_eq!(switch.route(&mut packet), Ok(clos.fabric_link_id(0, 1, 3).lower()));
        assert_eq!(packet[DST..], plan.container(&[plan.t1(0, 3), plan.t0(0, 2), 0x3009]));
        assert_eq!(packet[HOP_LIMIT], 63);
        // A neighbour's own SID needs no shift, as a /48 route needs none.
        let mut packet = frame(plan.sid(plan.host(0, 2)));
        assert_eq!(switch.foresee(&packet), Some(clos.host_link_id(0, 2).upper()));
        assert_eq!(switch.route(&mut packet), Ok(clos.host_link_id(0, 2).upper()));
        assert_eq!(packet[DST..], plan.sid(plan.host(0, 2)));
    }

    #[test]
    fn every_refusal_has_its_reason() {
        let (clos, switch) = switch();
        let plan = clos.plan();
        let t1 = plan.container(&[plan.t0(0, 1), plan.t1(0, 3), 0x1002, 0x3001]);
        let mut ipv4 = frame(t1);
        ipv4[12..14].copy_from_slice(&[8, 0]);
        let mut foreign = frame(t1);
        foreign[DST] = 0x20;
        let mut no_route = frame(plan.container(&[plan.t0(0, 1), plan.t1(0, 4), 0x1002, 0x3001]));
        let mut ends = frame(plan.sid(plan.t0(0, 1)));
        let mut old = frame(t1);
        old[HOP_LIMIT] = 1;
        assert_eq!(switch.route(&mut ipv4), Err(NoForward::NotIpv6));
        assert_eq!(switch.route(&mut ipv4[..40]), Err(NoForward::NotIpv6));
        assert_eq!(switch.route(&mut foreign), Err(NoForward::ForeignBlock));
        assert_eq!(switch.route(&mut no_route), Err(NoForward::NoRoute));
        assert_eq!(switch.route(&mut ends), Err(NoForward::EndsHere));
        assert_eq!(switch.route(&mut old), Err(NoForward::HopLimit));
    }
}

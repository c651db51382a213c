//! The time a message needs on an idle fabric: what slowdowns refer to.

use crate::fabric::{Clos, LinkId, LinkSpec};

/// An idle fabric whose links have the rates of the scenario; faults are none of its business.
#[derive(Clone, Copy, Debug)]
pub struct Ideal<'a> {
    /// The fabric.
    pub clos: &'a Clos,
    /// Links that differ from their tier, in order.
    pub links: &'a [(LinkId, LinkSpec)],
    /// Bytes on the wire of a full packet, and its payload.
    pub packet: (u32, u32),
    /// Bytes on the wire of an acknowledgement.
    pub control: u32,
}

impl Ideal<'_> {
    /// The time a message of `bytes` needs from one host to the other, from its first bit to its acknowledgement, in
    /// nanoseconds: all packets over all planes and spines at once, and one round trip of the first packet on the fastest
    /// path.
    pub fn ns(&self, (from, to): (u32, u32), bytes: u32) -> f64 {
        let (wire, payload) = self.packet;
        let packets = bytes.div_ceil(payload.max(1)).max(1);
        let overhead = wire.saturating_sub(payload);
        let all = u64::from(bytes) + u64::from(packets) * u64::from(overhead);
        let first = bytes.min(payload) + overhead;
        let (rate, round_trip) = match self.links.is_empty() {
            true => (self.clos.pair_rate_bps(from, to), self.clos.pair_rtt_ns(from, to, first, self.control)),
            false => (self.rate_bps(from, to), self.round_trip_ns(from, to, first)),
        };
        (all - u64::from(first)) as f64 * 8e9 / rate as f64 + round_trip as f64
    }

    fn spec(&self, link: LinkId) -> LinkSpec {
        let tier = if self.clos.is_host_link(link) { self.clos.host_link } else { self.clos.fabric_link };
        self.links.binary_search_by_key(&link, |(link, _)| *link).map_or(tier, |at| self.links[at].1)
    }

    /// The links between two leaves over each spine of a plane; one empty list where the hosts share a leaf.
    fn middles(&self, plane: u8, from: u32, to: u32) -> Vec<Vec<LinkId>> {
        let (a, b) = (u16::from(self.clos.t0_of(from)), u16::from(self.clos.t0_of(to)));
        if a == b {
            return vec![Vec::new()];
        }
        if self.clos.is_dumbbell() {
            return vec![vec![self.clos.fabric_link_id(plane, 0, 0)]];
        }
        let over = |t1| vec![self.clos.fabric_link_id(plane, a, t1), self.clos.fabric_link_id(plane, b, t1)];
        (0..self.clos.t1).map(over).collect()
    }

    /// What two hosts could exchange over all planes if they were alone.
    fn rate_bps(&self, from: u32, to: u32) -> u64 {
        let of_plane = |plane| {
            let ends = [from, to].map(|host| self.spec(self.clos.host_link_id(plane, host)).rate_bps);
            let slowest = |links: &Vec<LinkId>| links.iter().map(|&link| self.spec(link).rate_bps).min();
            // Hosts below one leaf have no link between.
            let middle = self.middles(plane, from, to).iter().map(slowest).sum::<Option<u64>>();
            ends[0].min(ends[1]).min(middle.unwrap_or(u64::MAX))
        };
        (0..self.clos.planes).map(of_plane).sum::<u64>().max(1)
    }

    /// A packet of `there` bytes and its acknowledgement on the fastest path.
    fn round_trip_ns(&self, from: u32, to: u32, there: u32) -> u64 {
        let over = |plane: u8, middle: &Vec<LinkId>| {
            let ends = [from, to].map(|host| self.clos.host_link_id(plane, host));
            let link = |&link: &LinkId| {
                let LinkSpec { rate_bps, delay_ns } = self.spec(link);
                let ns = |bytes: u32| (u64::from(bytes) * 8_000_000_000).div_ceil(rate_bps.max(1));
                ns(there) + ns(self.control) + 2 * u64::from(delay_ns)
            };
            let switches = 2 * (middle.len() as u64 + 1) * u64::from(self.clos.switch_latency_ns);
            ends.iter().chain(middle).map(link).sum::<u64>() + switches
        };
        let of_plane = |plane| self.middles(plane, from, to).iter().map(|middle| over(plane, middle)).min();
        (0..self.clos.planes).filter_map(of_plane).min().unwrap_or(0)
    }
}

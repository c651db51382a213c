//! The time a message needs on an idle fabric: what slowdowns refer to.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::fabric::{LinkId, LinkSpec, Topology};

/// A port, and the leaves of both ends.
type Between = (u8, u32, u32);

/// An idle fabric whose links have the rates of the scenario; faults are none of its business.
#[derive(Clone, Debug)]
pub struct Ideal<'a> {
    topology: &'a Topology,
    links: &'a [(LinkId, LinkSpec)],
    /// What lies between two leaves of a graph whose links are all as its topology has them.
    known: RefCell<BTreeMap<Between, Middle>>,
}

/// The fabric between two hosts, without their own links.
#[derive(Clone, Debug)]
struct Middle {
    /// The least that a step of the shortest paths carries, all its links together.
    rate_bps: u64,
    /// Some shortest paths.
    paths: Vec<Vec<LinkSpec>>,
}

impl<'a> Ideal<'a> {
    /// An idle `topology` of which these `links`, in order, differ.
    pub fn new(topology: &'a Topology, links: &'a [(LinkId, LinkSpec)]) -> Self {
        Self { topology, links, known: RefCell::default() }
    }

    /// The time a message of `bytes` needs from one host to the other, from its first bit to its acknowledgement, in
    /// nanoseconds: all packets over all ports and shortest paths at once, and one round trip of the first packet on the
    /// fastest path. `sizes`: bytes on the wire of a full packet, its payload, and an acknowledgement.
    pub fn ns(&self, (from, to): (u32, u32), bytes: u32, sizes: (u32, u32, u32)) -> f64 {
        let (wire, payload, control) = sizes;
        let packets = bytes.div_ceil(payload.max(1)).max(1);
        let overhead = wire.saturating_sub(payload);
        let all = u64::from(bytes) + u64::from(packets) * u64::from(overhead);
        let first = bytes.min(payload) + overhead;
        let (rate, round_trip) = match self.topology {
            Topology::Clos(clos) if self.links.is_empty() => {
                (clos.pair_rate_bps(from, to), clos.pair_rtt_ns(from, to, first, control))
            }
            _ => self.rate_and_round_trip(from, to, (first, control)),
        };
        (all - u64::from(first)) as f64 * 8e9 / rate as f64 + round_trip as f64
    }

    fn spec(&self, link: LinkId) -> LinkSpec {
        match self.links.binary_search_by_key(&link, |(link, _)| *link) {
            Ok(at) => self.links[at].1,
            Err(_) => self.topology.link_spec(link),
        }
    }

    /// What two hosts could exchange over all ports if they were alone, and a packet and its acknowledgement on the fastest
    /// path.
    fn rate_and_round_trip(&self, from: u32, to: u32, (there, back): (u32, u32)) -> (u64, u64) {
        let ports = self.topology.host_ports(from).min(self.topology.host_ports(to));
        let (mut rate, mut fastest) = (0, u64::MAX);
        for port in 0..ports {
            let ends = [from, to].map(|host| self.spec(self.topology.host_link_id(port, host)));
            let Middle { rate_bps, paths } = self.middle(port, from, to);
            rate += ends[0].rate_bps.min(ends[1].rate_bps).min(rate_bps);
            for middle in paths {
                let links: Vec<LinkSpec> = [ends[0]].into_iter().chain(middle).chain([ends[1]]).collect();
                fastest = fastest.min(self.topology.round_trip_ns(&links, there, back));
            }
        }
        (rate.max(1), if fastest == u64::MAX { 0 } else { fastest })
    }

    fn middle(&self, port: u8, from: u32, to: u32) -> Middle {
        let leaf = |host| match self.topology {
            Topology::Clos(clos) => clos.t0_of(host).into(),
            Topology::Graph(graph) => graph.leaf(host, port).unwrap_or(0),
        };
        let between = (port, leaf(from), leaf(to));
        if let Some(known) = self.known.borrow().get(&between) {
            return known.clone();
        }
        let inner = |links: Vec<LinkId>| links[1..links.len() - 1].iter().map(|&link| self.spec(link)).collect();
        let paths: Vec<Vec<LinkSpec>> = self.topology.paths(port, from, to).into_iter().map(inner).collect();
        let rate_bps = match self.topology {
            // Every spine is a path of its own.
            Topology::Clos(_) => {
                let slowest = |links: &Vec<LinkSpec>| links.iter().map(|link| link.rate_bps).min();
                paths.iter().map(slowest).sum::<Option<u64>>().unwrap_or(u64::MAX)
            }
            Topology::Graph(_) => {
                let steps = self.topology.steps(port, from, to);
                let carries = |links: &Vec<LinkId>| links.iter().map(|&link| self.spec(link).rate_bps).sum();
                steps[1..steps.len() - 1].iter().map(carries).min().unwrap_or(u64::MAX)
            }
        };
        let middle = Middle { rate_bps, paths };
        self.known.borrow_mut().insert(between, middle.clone());
        middle
    }
}

//! The time a message needs on an idle fabric: what slowdowns refer to.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::fabric::{LinkId, LinkSpec, Topology};

/// A port of each end, and its leaf.
type Between = ((u8, u32), (u8, u32));

/// An idle fabric whose links have the rates of the scenario; faults are none of its business.
#[derive(Clone, Debug)]
pub struct Ideal<'a> {
    topology: &'a Topology,
    links: &'a [(LinkId, LinkSpec)],
    /// What lies between two leaves of a graph whose links are all as its topology has them.
    known: RefCell<BTreeMap<Between, Middle>>,
    /// By port, leaf and receiver: the ports at which packets arrive.
    arrivals: RefCell<BTreeMap<(u8, u32, u32), Vec<u8>>>,
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
        Self { topology, links, known: RefCell::default(), arrivals: RefCell::default() }
    }

    /// The time a message of `bytes` needs from one host to the other, from its first bit to its acknowledgement, in
    /// nanoseconds: all packets over all ports and shortest paths at once, and one round trip of the first packet on the
    /// fastest path, during which the other ports carry packets, too. `sizes`: bytes on the wire of a full packet, its
    /// payload, and an acknowledgement.
    pub fn ns(&self, (from, to): (u32, u32), bytes: u32, sizes: (u32, u32, u32)) -> f64 {
        let (wire, payload, control) = sizes;
        let packets = bytes.div_ceil(payload.max(1)).max(1);
        let overhead = wire.saturating_sub(payload);
        let all = u64::from(bytes) + u64::from(packets) * u64::from(overhead);
        let first = bytes.min(payload) + overhead;
        let (rate, one, round_trip) = match self.topology {
            Topology::Clos(clos) if self.links.is_empty() => {
                let (rate, host) = (clos.pair_rate_bps(from, to), clos.host_link.rate_bps);
                let one = if rate < host * u64::from(clos.planes) { clos.fabric_link.rate_bps } else { host };
                (rate, one, clos.pair_rtt_ns(from, to, first, control))
            }
            _ => self.rate_and_round_trip(from, to, (first, control)),
        };
        let ns = |bytes: u64, bps: u64| bytes as f64 * 8e9 / bps as f64;
        (ns(all, rate) - ns(first.into(), one)).max(0.0) + round_trip as f64
    }

    fn spec(&self, link: LinkId) -> LinkSpec {
        match self.links.binary_search_by_key(&link, |(link, _)| *link) {
            Ok(at) => self.links[at].1,
            Err(_) => self.topology.link_spec(link),
        }
    }

    /// What two hosts could exchange over all ports if they were alone; the rate of a link where that is decided; a packet
    /// and its acknowledgement on the fastest path.
    fn rate_and_round_trip(&self, from: u32, to: u32, (there, back): (u32, u32)) -> (u64, u64, u64) {
        // The acknowledgement may take another path than the packet.
        let (mut rate, mut one, mut fastest) = (0, 1, [u64::MAX; 2]);
        for port in 0..self.topology.host_ports(from) {
            let near = self.spec(self.topology.host_link_id(port, from));
            let (mut of_port, mut narrowest) = (0u64, u64::MAX);
            let before = fastest[0];
            for arrival in self.arrivals(port, from, to) {
                let far = self.spec(self.topology.host_link_id(arrival, to));
                let Middle { rate_bps, paths } = self.middle((port, arrival), from, to);
                of_port = of_port.saturating_add(far.rate_bps.min(rate_bps));
                for middle in paths {
                    let behind = middle.iter().chain([&far]).map(|link| link.rate_bps).min().unwrap_or(u64::MAX);
                    let links: Vec<LinkSpec> = [near].into_iter().chain(middle).chain([far]).collect();
                    let back_links: Vec<LinkSpec> = links.iter().rev().copied().collect();
                    let one_way = self.topology.one_way_ns(&links, there);
                    if one_way < fastest[0] {
                        (fastest[0], narrowest) = (one_way, behind);
                    }
                    fastest[1] = fastest[1].min(self.topology.one_way_ns(&back_links, back));
                }
            }
            rate += near.rate_bps.min(of_port);
            if fastest[0] < before {
                one = if near.rate_bps <= of_port { near.rate_bps } else { narrowest };
            }
        }
        (rate.max(1), one, if fastest[0] == u64::MAX { 0 } else { fastest[0] + fastest[1] })
    }

    fn leaf(&self, port: u8, host: u32) -> u32 {
        match self.topology {
            Topology::Clos(clos) => clos.t0_of(host).into(),
            Topology::Graph(graph) => graph.leaf(host, port).unwrap_or(0),
        }
    }

    fn arrivals(&self, port: u8, from: u32, to: u32) -> Vec<u8> {
        let by = (port, self.leaf(port, from), to);
        self.arrivals.borrow_mut().entry(by).or_insert_with(|| self.topology.arrivals(port, from, to)).clone()
    }

    fn middle(&self, ports: (u8, u8), from: u32, to: u32) -> Middle {
        let between = ((ports.0, self.leaf(ports.0, from)), (ports.1, self.leaf(ports.1, to)));
        if let Some(known) = self.known.borrow().get(&between) {
            return known.clone();
        }
        let inner = |links: Vec<LinkId>| links[1..links.len() - 1].iter().map(|&link| self.spec(link)).collect();
        let paths: Vec<Vec<LinkSpec>> = self.topology.paths(ports, from, to).into_iter().map(inner).collect();
        let rate_bps = match self.topology {
            // Every spine is a path of its own.
            Topology::Clos(_) => {
                let slowest = |links: &Vec<LinkSpec>| links.iter().map(|link| link.rate_bps).min();
                paths.iter().map(slowest).sum::<Option<u64>>().unwrap_or(u64::MAX)
            }
            Topology::Graph(_) => {
                let steps = self.topology.steps(ports, from, to);
                let carries = |links: &Vec<LinkId>| links.iter().map(|&link| self.spec(link).rate_bps).sum();
                steps[1..steps.len() - 1].iter().map(carries).min().unwrap_or(u64::MAX)
            }
        };
        let middle = Middle { rate_bps, paths };
        self.known.borrow_mut().insert(between, middle.clone());
        middle
    }
}

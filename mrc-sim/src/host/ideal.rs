//! The time a message needs on an idle fabric: what slowdowns refer to.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::max_flow::max_flow;
use crate::fabric::{Graph, LinkId, LinkSpec, Node, Topology, serialisation_ns};

/// A port of each end, and its leaf.
type Between = ((u8, u32), (u8, u32));

/// What the narrowest step carries, in bit/s, and its links.
type Cut = (u64, BTreeSet<LinkId>);

/// An idle fabric whose links have the rates of the scenario; faults are none of its business.
#[derive(Clone, Debug)]
pub struct Ideal<'a> {
    topology: &'a Topology,
    links: &'a [(LinkId, LinkSpec)],
    /// What lies between two leaves of a graph whose links are all as its topology has them.
    known: RefCell<BTreeMap<Between, Middle>>,
    /// By what lies between their ports: whether these share links in the middle.
    shared: RefCell<BTreeMap<Vec<Between>, bool>>,
    /// By sender and receiver, where ports share links: what they carry all together, and the narrowest step.
    cuts: RefCell<BTreeMap<(u32, u32), Cut>>,
    /// By port, leaf and receiver: the ports at which packets arrive.
    arrivals: RefCell<BTreeMap<(u8, u32, u32), Vec<u8>>>,
}

/// Bytes on the wire of a transport's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireBytes {
    /// A full data packet.
    pub packet: u32,
    /// Its payload.
    pub payload: u32,
    /// The shortest packet that completes a message.
    pub acknowledgement: u32,
}

/// What lies between two hosts.
struct IdlePaths {
    /// What they could exchange over all ports and paths if they were alone.
    rate_bps: u64,
    /// Paths, of equal ones one.
    paths: Vec<IdlePath>,
    /// There is no second path.
    alone: bool,
}

/// A path between two hosts.
struct IdlePath {
    /// Its links, from the first to the last.
    links: Vec<LinkSpec>,
    /// The link at which packets of all paths together wait.
    narrowest: usize,
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
        Self {
            topology,
            links,
            known: RefCell::default(),
            shared: RefCell::default(),
            cuts: RefCell::default(),
            arrivals: RefCell::default(),
        }
    }

    /// The time a message of `bytes` needs from one host to the other, from its first bit to its acknowledgement, in
    /// nanoseconds. Its packets leave in order and use all ports and shortest paths at once.
    ///
    /// Three lower bounds hold, and the largest one counts, so that no message can be faster:
    ///
    /// * one full packet crosses the fabric;
    /// * all packets cross the narrowest step, and the last one reaches it and goes on from it;
    /// * all full packets cross the narrowest step, and one reaches it and goes on from it.
    ///
    /// The last packet may be short. Where there are several paths, it may arrive before a full one. Times are whole nanoseconds, as the
    /// fabric counts them.
    pub fn ns(&self, (from, to): (u32, u32), bytes: u32, sizes: &WireBytes) -> f64 {
        let overhead = sizes.packet.saturating_sub(sizes.payload);
        let before = (bytes.div_ceil(sizes.payload.max(1))).saturating_sub(1);
        let last = bytes - before * sizes.payload + overhead;
        let first = if before > 0 { sizes.packet } else { last };
        let IdlePaths { rate_bps, paths, alone } = self.between(from, to);
        let least = |time: &dyn Fn(&IdlePath) -> f64| paths.iter().map(time).reduce(f64::min).unwrap_or(0.0);
        let through = |bytes: u64| (bytes as f64 * 8e9 / rate_bps.max(1) as f64).floor();
        let full = u64::from(before) * u64::from(sizes.packet);
        // Where there is one path only, nothing overtakes.
        let (ahead, behind) = if alone { (first, last) } else { (last, 0) };
        let one = least(&|path| self.one_way(&path.links, first));
        let all = through(full + u64::from(last)) + least(&|path| self.around(path, ahead, last));
        let follows = |path: &IdlePath| path.links.last().map_or(0.0, |link| serialisation_ns(link, behind));
        let most = through(full) + least(&|path| self.around(path, first, first) + follows(path));
        let there = if before > 0 { one.max(all).max(most) } else { one };
        let back = least(&|path| {
            let links: Vec<LinkSpec> = path.links.iter().rev().copied().collect();
            self.one_way(&links, sizes.acknowledgement)
        });
        there + back
    }

    fn one_way(&self, links: &[LinkSpec], bytes: u32) -> f64 {
        self.topology.least_one_way_ns(links, bytes)
    }

    /// From the start to the narrowest link for a packet of `ahead` bytes, and from there to the end for one of `behind`.
    fn around(&self, path: &IdlePath, ahead: u32, behind: u32) -> f64 {
        let IdlePath { links, narrowest } = path;
        let link = &links[*narrowest];
        let to = self.one_way(&links[..=*narrowest], ahead) - serialisation_ns(link, ahead) - f64::from(link.delay_ns);
        to + self.one_way(&links[*narrowest..], behind) - serialisation_ns(link, behind)
    }

    fn spec(&self, link: LinkId) -> LinkSpec {
        match self.links.binary_search_by_key(&link, |(link, _)| *link) {
            Ok(at) => self.links[at].1,
            Err(_) => self.topology.link_spec(link),
        }
    }

    fn between(&self, from: u32, to: u32) -> IdlePaths {
        if let Topology::Clos(clos) = self.topology
            && self.links.is_empty()
        {
            let links = clos.path_links(from, to);
            let rate_bps = clos.pair_rate_bps(from, to);
            let narrowest = usize::from(rate_bps < clos.host_link.rate_bps * u64::from(clos.planes));
            let alone = clos.planes == 1 && (links.len() == 2 || clos.uplinks() == 1);
            return IdlePaths { rate_bps, paths: vec![IdlePath { links, narrowest }], alone };
        }
        if let Topology::Graph(graph) = self.topology
            && let Some(paths) = self.between_shared(graph, from, to)
        {
            return paths;
        }
        let (mut all_bps, mut found) = (0, Vec::new());
        // What the receiver's links take, each counted once however many ports of the sender lead to it.
        let mut last_bps = BTreeMap::new();
        for port in 0..self.topology.host_ports(from) {
            let near = self.spec(self.topology.host_link_id(port, from));
            let arrivals: Vec<(u8, LinkSpec, Middle)> = (self.arrivals(port, from, to).into_iter())
                .map(|there| {
                    let far = self.spec(self.topology.host_link_id(there, to));
                    (there, far, self.middle((port, there), from, to))
                })
                .collect();
            let of_port = arrivals.iter().map(|(_, far, middle)| far.rate_bps.min(middle.rate_bps)).sum();
            all_bps += near.rate_bps.min(of_port);
            for (there, far, Middle { rate_bps, paths }) in arrivals {
                last_bps.insert(there, far.rate_bps);
                for middle in paths {
                    let narrowest = if near.rate_bps <= of_port {
                        0
                    } else if far.rate_bps <= rate_bps {
                        middle.len() + 1
                    } else {
                        1 + (0..middle.len()).min_by_key(|&at| middle[at].rate_bps).unwrap_or(0)
                    };
                    let links = [near].into_iter().chain(middle).chain([far]).collect();
                    found.push(IdlePath { links, narrowest });
                }
            }
        }
        let last_bps = last_bps.values().sum();
        if all_bps > last_bps {
            found.iter_mut().for_each(|path| path.narrowest = path.links.len().saturating_sub(1));
        }
        IdlePaths { rate_bps: all_bps.min(last_bps), alone: found.len() == 1, paths: found }
    }

    /// The ports by which packets leave one host, each with those at which they arrive at the other.
    fn port_pairs(&self, from: u32, to: u32) -> Vec<(u8, u8)> {
        let ports = 0..self.topology.host_ports(from);
        ports.flat_map(|port| self.arrivals(port, from, to).into_iter().map(move |there| (port, there))).collect()
    }

    /// What lies between two hosts of which several ports lead over the same links; `None` where none does.
    fn between_shared(&self, graph: &Graph, from: u32, to: u32) -> Option<IdlePaths> {
        let ports = self.port_pairs(from, to);
        let between = |&(port, there): &(u8, u8)| ((port, self.leaf(port, from)), (there, self.leaf(there, to)));
        let inner = |&ports: &(u8, u8)| {
            let mut steps = self.topology.steps(ports, from, to);
            steps.pop();
            steps.into_iter().skip(1).flatten().collect::<BTreeSet<LinkId>>()
        };
        let share = || {
            let mut seen = BTreeSet::new();
            ports.iter().flat_map(inner).any(|link| !seen.insert(link))
        };
        let by: Vec<Between> = ports.iter().map(between).collect();
        if ports.len() < 2 || !*self.shared.borrow_mut().entry(by).or_insert_with(share) {
            return None;
        }
        let mut cuts = self.cuts.borrow_mut();
        let (rate_bps, cut) = cuts.entry((from, to)).or_insert_with(|| self.cut(graph, &ports, from, to));
        let path = |links: Vec<LinkId>| {
            let narrowest = links.iter().position(|link| cut.contains(link)).unwrap_or(0);
            IdlePath { links: links.into_iter().map(|link| self.spec(link)).collect(), narrowest }
        };
        let paths: Vec<IdlePath> =
            ports.iter().flat_map(|&ports| self.topology.paths(ports, from, to)).map(path).collect();
        Some(IdlePaths { rate_bps: *rate_bps, alone: paths.len() == 1, paths })
    }

    /// What the links between these ports of two hosts carry together, and those of them that are the narrowest step.
    fn cut(&self, graph: &Graph, ports: &[(u8, u8)], from: u32, to: u32) -> Cut {
        // Each direction of a link is an edge of its own, from the node that packets have reached to the next.
        let mut edges: BTreeSet<(LinkId, Node, Node)> = BTreeSet::new();
        for &ports in ports {
            let mut reached = BTreeSet::from([Node::Host(from)]);
            for step in self.topology.steps(ports, from, to) {
                let ends = |link: LinkId| {
                    let edge = &graph.spec().links[link.0 as usize];
                    if reached.contains(&edge.a) { (link, edge.a, edge.b) } else { (link, edge.b, edge.a) }
                };
                let step: Vec<_> = step.into_iter().map(ends).collect();
                reached = step.iter().map(|&(.., end)| end).collect();
                edges.extend(step);
            }
        }
        let nodes: BTreeSet<Node> = edges.iter().flat_map(|&(_, a, b)| [a, b]).collect();
        let nodes: BTreeMap<Node, usize> = nodes.into_iter().zip(0..).collect();
        let number = |node: &Node| nodes.get(node).copied().unwrap_or(0);
        let carried: Vec<_> =
            edges.iter().map(|(link, a, b)| (number(a), number(b), self.spec(*link).rate_bps)).collect();
        let (flow, near) = max_flow(&carried, number(&Node::Host(from)), number(&Node::Host(to)));
        let crosses = |(_, a, b): &&(LinkId, Node, Node)| near[number(a)] && !near[number(b)];
        (flow, edges.iter().filter(crosses).map(|&(link, ..)| link).collect())
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

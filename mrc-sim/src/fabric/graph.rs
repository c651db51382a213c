//! A fabric as a graph: hosts with any number of ports, switches, and links of their own rate and delay. Owns numbering,
//! shortest paths, and the micro-SIDs by which senders name paths; [`super::tiers`] builds regular ones.
//!
//! Packets take shortest paths, counted in links. Port `n` of a host talks to port `n` of the others, as on separate planes;
//! planes may share switches. A path's micro-SIDs are those of one switch halfway, of the last switch, and of the host.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use mrc_core::{MAX_PORTS, Rng};
use mrc_wire::srv6::{self, CopyOp};

use super::address::DEFAULT_BLOCK;
use super::port::{LinkSpec, Owner, Port};
use super::queue::QueueSpec;
use super::scheme::{Choice, PathNames, Routes, Scheme, Site, Table};
use super::switch::Switch;
use super::topology::{Clos, LinkId, PortId, Tier};

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A host, by number.
    Host(u32),
    /// A switch, by number.
    Switch(u32),
}

/// A link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// One end.
    pub a: Node,
    /// The other end.
    pub b: Node,
    /// Rate and delay.
    pub spec: LinkSpec,
    /// Name in scenarios and results.
    pub name: String,
}

/// What a graph is built from. The ports of a host are its links in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphSpec {
    /// Hosts.
    pub hosts: u32,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Links.
    pub links: Vec<Edge>,
    /// Time from a frame's last bit in to its place in the egress queue.
    pub switch_latency_ns: u32,
    /// Whether switches begin to forward when they have the header, see [`Clos::cut_through`].
    pub cut_through: bool,
    /// Every egress port of a switch.
    pub queue: QueueSpec,
    /// How switches treat packets.
    pub scheme: Scheme,
    /// Upper 32 bits of all SIDs.
    pub block: u32,
}

impl Default for GraphSpec {
    fn default() -> Self {
        Self {
            hosts: 0,
            switches: Vec::new(),
            links: Vec::new(),
            switch_latency_ns: 500,
            cut_through: false,
            queue: QueueSpec::default(),
            scheme: crate::scheme::SRV6,
            block: DEFAULT_BLOCK,
        }
    }
}

/// Why a graph cannot be a fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    /// A link names a node that does not exist, or the same node twice, or two hosts.
    #[error("link `{0}` joins no two different nodes of the graph, of which one at least must be a switch")]
    Ends(String),
    /// A rate of zero.
    #[error("link `{0}` has a rate of 0 bit/s; to take a link down, cut it")]
    Rate(String),
    /// A host without a link, or with too many.
    #[error("host {host} has {ports} links; a host has 1 to {MAX_PORTS} ports")]
    Ports {
        /// The host.
        host: u32,
        /// Its links.
        ports: usize,
    },
    /// Two hosts that cannot talk.
    #[error("port {port} of host {a} and that of host {b} are in parts of the graph that no link joins")]
    Apart {
        /// The port, from 0.
        port: u8,
        /// A host.
        a: u32,
        /// The other one.
        b: u32,
    },
    /// More switches than micro-SIDs.
    #[error(
        "{0} switches with up to {1} parallel links: micro-SIDs name at most 61440 links to switches; use forwarding `ecmp`"
    )]
    Sids(usize, usize),
    /// More hosts below a switch than micro-SIDs.
    #[error("more than 4096 hosts share a switch: micro-SIDs name no more; use forwarding `ecmp`")]
    HostSids,
    /// No host at all, or two many for a number.
    #[error("a fabric has at least 2 hosts and 1 switch")]
    Empty,
}

/// First micro-SID of hosts.
const HOST_SIDS: u32 = 0xF000;
const NONE: u32 = u32::MAX;
/// Most shortest paths that are looked at for the ideal time between two switches.
const MOST_PATHS: usize = 64;

/// A graph with its routes. Links keep their order; [`LinkId::lower`] is the port at the end nearer to hosts.
#[derive(Debug)]
pub struct Graph {
    spec: GraphSpec,
    /// By host: its links.
    host_links: Vec<Vec<u32>>,
    /// By switch: egress port and the switch behind it.
    neighbours: Vec<Vec<(PortId, u32)>>,
    /// By switch: hosts below and the ports to them, in order.
    below: Vec<Vec<(u32, PortId)>>,
    /// By switch: distance from the nearest switch with hosts.
    level: Vec<u8>,
    /// By switch: the part of the graph it is in.
    part: Vec<u32>,
    /// By host: its number in micro-SIDs.
    host_sid: Vec<u16>,
    /// Most links that join the same two nodes.
    multiplicity: u32,
    /// Most ports of a host.
    planes: u8,
    /// The ways of all switches: reckoned once, however many shares the fabric has.
    tables: OnceLock<Vec<Table>>,
    sid_tables: OnceLock<Vec<Arc<SidTable>>>,
}

impl Graph {
    /// Numbers and checks everything.
    ///
    /// # Errors
    /// What cannot be a fabric.
    pub fn new(mut spec: GraphSpec) -> Result<Self, GraphError> {
        let (hosts, switches) = (spec.hosts as usize, spec.switches.len());
        if hosts < 2 || switches == 0 {
            return Err(GraphError::Empty);
        }
        let mut host_links = vec![Vec::new(); hosts];
        for (nth, link) in spec.links.iter_mut().enumerate() {
            if matches!(link.b, Node::Host(_)) {
                std::mem::swap(&mut link.a, &mut link.b);
            }
            let known = |node| match node {
                Node::Host(host) => (host as usize) < hosts,
                Node::Switch(switch) => (switch as usize) < switches,
            };
            if link.a == link.b || !known(link.a) || !known(link.b) || matches!(link.b, Node::Host(_)) {
                return Err(GraphError::Ends(link.name.clone()));
            }
            if link.spec.rate_bps == 0 {
                return Err(GraphError::Rate(link.name.clone()));
            }
            if let Node::Host(host) = link.a {
                host_links[host as usize].push(nth as u32);
            }
        }
        if let Some((host, links)) = (0..).zip(&host_links).find(|(_, links)| !(1..=MAX_PORTS).contains(&links.len())) {
            return Err(GraphError::Ports { host, ports: links.len() });
        }
        let level = levels(&spec);
        for link in &mut spec.links {
            if let (Node::Switch(a), Node::Switch(b)) = (link.a, link.b)
                && (level[a as usize], a) > (level[b as usize], b)
            {
                std::mem::swap(&mut link.a, &mut link.b);
            }
        }
        let mut graph = Self {
            planes: host_links.iter().map(Vec::len).max().unwrap_or(1) as u8,
            host_links,
            neighbours: vec![Vec::new(); switches],
            below: vec![Vec::new(); switches],
            level,
            part: Vec::new(),
            host_sid: Vec::new(),
            multiplicity: 1,
            spec,
            tables: OnceLock::new(),
            sid_tables: OnceLock::new(),
        };
        graph.join();
        graph.part = graph.parts();
        graph.check_parts()?;
        if graph.spec.scheme.paths() == PathNames::MicroSids {
            graph.host_sid = graph.number_hosts()?;
            if (switches + 1) << graph.width() > HOST_SIDS as usize {
                return Err(GraphError::Sids(switches, graph.multiplicity as usize));
            }
        }
        Ok(graph)
    }

    fn join(&mut self) {
        let mut same: BTreeMap<(Node, Node), u32> = BTreeMap::new();
        for (nth, link) in (0..).zip(&self.spec.links) {
            let id = LinkId(nth);
            *same.entry((link.a, link.b)).or_default() += 1;
            match (link.a, link.b) {
                (Node::Host(host), Node::Switch(switch)) => self.below[switch as usize].push((host, id.upper())),
                (Node::Switch(a), Node::Switch(b)) => {
                    self.neighbours[a as usize].push((id.lower(), b));
                    self.neighbours[b as usize].push((id.upper(), a));
                }
                _ => {}
            }
        }
        self.below.iter_mut().for_each(|hosts| hosts.sort_unstable());
        self.multiplicity = same.values().copied().max().unwrap_or(1);
    }

    /// The connected part that each switch is in; hosts do not forward.
    fn parts(&self) -> Vec<u32> {
        let mut part = vec![NONE; self.neighbours.len()];
        let mut next = 0;
        for start in 0..part.len() {
            if part[start] != NONE {
                continue;
            }
            let mut queue = vec![start];
            part[start] = next;
            while let Some(at) = queue.pop() {
                for &(_, to) in &self.neighbours[at] {
                    if part[to as usize] == NONE {
                        part[to as usize] = next;
                        queue.push(to as usize);
                    }
                }
            }
            next += 1;
        }
        part
    }

    fn check_parts(&self) -> Result<(), GraphError> {
        for port in 0..self.planes {
            let mut first: Option<(u32, u32)> = None;
            for host in 0..self.spec.hosts {
                let Some(switch) = self.leaf(host, port) else { continue };
                let part = self.part[switch as usize];
                match first {
                    Some((a, other)) if other != part => return Err(GraphError::Apart { port, a, b: host }),
                    _ => first = first.or(Some((host, part))),
                }
            }
        }
        Ok(())
    }

    /// Numbers hosts so that no two below one switch are alike.
    fn number_hosts(&self) -> Result<Vec<u16>, GraphError> {
        let mut numbers = vec![0u16; self.spec.hosts as usize];
        let mut used: Vec<Vec<bool>> = vec![Vec::new(); self.below.len()];
        for host in 0..self.spec.hosts {
            let switches: Vec<usize> =
                (0..self.planes).filter_map(|port| self.leaf(host, port)).map(|switch| switch as usize).collect();
            let taken = |number: usize| switches.iter().any(|&at| used[at].get(number) == Some(&true));
            let number = (0..4096).find(|&number| !taken(number)).ok_or(GraphError::HostSids)?;
            for at in switches {
                if used[at].len() <= number {
                    used[at].resize(number + 1, false);
                }
                used[at][number] = true;
            }
            numbers[host as usize] = number as u16;
        }
        Ok(numbers)
    }

    /// What it was built from; ends of links in order of their level.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// Most ports of a host.
    pub fn planes(&self) -> u8 {
        self.planes
    }

    /// Ports of a host.
    pub fn host_ports(&self, host: u32) -> u8 {
        self.host_links[host as usize].len() as u8
    }

    /// The link behind a port of a host, if it has that port.
    pub fn host_link(&self, host: u32, port: u8) -> Option<LinkId> {
        self.host_links[host as usize].get(usize::from(port)).map(|&link| LinkId(link))
    }

    /// The switch above a port of a host.
    pub fn leaf(&self, host: u32, port: u8) -> Option<u32> {
        match self.spec.links[self.host_link(host, port)?.0 as usize].b {
            Node::Switch(switch) => Some(switch),
            Node::Host(_) => None,
        }
    }

    /// Distance of a switch from the nearest one with hosts.
    pub fn level(&self, switch: u32) -> u8 {
        self.level[switch as usize]
    }

    /// The tier of an egress port.
    pub fn tier(&self, port: PortId) -> Tier {
        let link = &self.spec.links[port.link().0 as usize];
        let (owner, far) = if port == port.link().lower() { (link.a, link.b) } else { (link.b, link.a) };
        match (owner, far) {
            (Node::Host(_), _) => Tier::Host,
            (_, Node::Host(_)) => Tier::T0Down,
            (Node::Switch(owner), Node::Switch(far)) => match (self.level[owner as usize], self.level[far as usize]) {
                (0, _) => Tier::T0Up,
                (own, far) if far >= own => Tier::T1Up,
                (1, _) => Tier::T1Down,
                _ => Tier::T2Down,
            },
        }
    }

    /// Distances of all switches to one of `to`, in links; `u32::MAX` where there is no way.
    fn distances(&self, to: &[u32]) -> Vec<u32> {
        let mut distance = vec![NONE; self.neighbours.len()];
        let mut queue: VecDeque<u32> = to.iter().copied().collect();
        to.iter().for_each(|&switch| distance[switch as usize] = 0);
        while let Some(at) = queue.pop_front() {
            for &(_, next) in &self.neighbours[at as usize] {
                if distance[next as usize] == NONE {
                    distance[next as usize] = distance[at as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        distance
    }

    fn next_hops<'a>(&'a self, at: u32, distance: &'a [u32]) -> impl Iterator<Item = (PortId, u32)> + 'a {
        let here = distance[at as usize];
        let nearer = move |&(_, to): &(PortId, u32)| here != NONE && distance[to as usize].wrapping_add(1) == here;
        self.neighbours[at as usize].iter().copied().filter(nearer)
    }

    /// The switches on shortest paths between two, level by level, the first and the last included.
    pub fn layers(&self, from: u32, to: u32) -> Vec<Vec<u32>> {
        let distance = self.distances(&[to]);
        let mut layers = vec![vec![from]];
        while let Some(last) = layers.last()
            && last.iter().any(|&at| at != to)
        {
            let mut next: Vec<u32> =
                last.iter().flat_map(|&at| self.next_hops(at, &distance)).map(|(_, to)| to).collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                break;
            }
            layers.push(next);
        }
        layers
    }

    /// The links of shortest paths between two switches, step by step.
    pub fn steps(&self, from: u32, to: u32) -> Vec<Vec<LinkId>> {
        let distance = self.distances(&[to]);
        let layers = self.layers(from, to);
        let links = |layer: &Vec<u32>| {
            layer.iter().flat_map(|&at| self.next_hops(at, &distance)).map(|(port, _)| port.link()).collect()
        };
        layers[..layers.len() - 1].iter().map(links).collect()
    }

    /// Some shortest paths between two switches, by their links.
    pub fn paths(&self, from: u32, to: u32) -> Vec<Vec<LinkId>> {
        let distance = self.distances(&[to]);
        let mut paths = vec![(from, Vec::new())];
        for _ in 0..distance[from as usize].min(64) {
            let longer = paths.iter().flat_map(|(at, links)| {
                let step = move |(port, next): (PortId, u32)| {
                    let mut links: Vec<LinkId> = links.clone();
                    links.push(port.link());
                    (next, links)
                };
                self.next_hops(*at, &distance).map(step)
            });
            paths = longer.take(MOST_PATHS).collect();
        }
        paths.into_iter().map(|(_, links)| links).collect()
    }

    /// Ports of `to` at which packets arrive that leave `from` by `port`. Senders that write paths name the port; otherwise
    /// packets carry the host's address, which leads to the nearest ones.
    pub fn arrivals(&self, port: u8, from: u32, to: u32) -> Vec<u8> {
        let Some(near) = self.leaf(from, port) else { return Vec::new() };
        let part = |at: u32| self.part[at as usize] == self.part[near as usize];
        let leaves = |port: u8| self.leaf(to, port).filter(|&leaf| part(leaf)).map(|leaf| (port, leaf));
        let leaves: Vec<(u8, u32)> = (0..self.host_ports(to)).filter_map(leaves).collect();
        if self.spec.scheme.paths() == PathNames::MicroSids {
            return leaves.into_iter().map(|(there, _)| there).filter(|&there| there == port).collect();
        }
        if leaves.len() < 2 {
            return leaves.into_iter().map(|(there, _)| there).collect();
        }
        let distance = self.distances(&[near]);
        let least = leaves.iter().map(|&(_, leaf)| distance[leaf as usize]).min();
        let nearest = leaves.into_iter().filter(|&(_, leaf)| Some(distance[leaf as usize]) == least);
        nearest.map(|(there, _)| there).collect()
    }

    /// Different ways from a switch over its uplinks: those on the way to the farthest others.
    pub fn width_of(&self, from: u32, to: u32) -> u32 {
        self.layers(from, to).iter().map(|layer| layer.len() as u32).max().unwrap_or(1) * self.multiplicity
    }

    const fn width(&self) -> u32 {
        u32::BITS - (self.multiplicity - 1).leading_zeros()
    }

    /// The micro-SID of a switch, as the end of the `nth` of parallel links.
    pub fn switch_sid(&self, switch: u32, nth: u32) -> u16 {
        ((switch + 1) << self.width() | nth) as u16
    }

    /// The micro-SID of a host, which the switches above it know.
    pub fn host_sid(&self, host: u32) -> u16 {
        HOST_SIDS as u16 | self.host_sid.get(host as usize).copied().unwrap_or(0)
    }

    /// The SID of a host.
    pub fn sid(&self, host: u32) -> [u8; 16] {
        srv6::container(self.spec.block, &[self.host_sid(host)])
    }

    /// How an EV of [`Graph::path_evs`] becomes the outer destination towards a host.
    pub fn ev_template(&self, to: u32) -> ([u8; 16], &'static [CopyOp]) {
        const OPS: &[CopyOp] = &[
            CopyOp { ev_lsb: 0, width: 16, dst_msb_offset: 32 },
            CopyOp { ev_lsb: 16, width: 16, dst_msb_offset: 48 },
        ];
        (srv6::container(self.spec.block, &[0, 0, self.host_sid(to)]), OPS)
    }

    /// The paths between two hosts, as EVs with their ports: the micro-SID of a switch halfway, below that of the last
    /// switch.
    pub fn path_evs(&self, from: u32, to: u32) -> Vec<(u32, u8)> {
        let ports = self.host_ports(from).min(self.host_ports(to));
        let mut by_port: Vec<Vec<u32>> = Vec::new();
        for port in 0..ports {
            let (Some(near), Some(far)) = (self.leaf(from, port), self.leaf(to, port)) else { continue };
            let layers = self.layers(near, far);
            let middle = layers.iter().max_by_key(|layer| layer.len()).cloned().unwrap_or_default();
            // Where one switch is the only one on the way, the last one says it all.
            let middle = if middle.len() == 1 { vec![far] } else { middle };
            let link = self.host_link(to, port);
            let links: Vec<PortId> =
                self.below[far as usize].iter().filter(|(host, _)| *host == to).map(|(_, port)| *port).collect();
            let rank = links.iter().position(|port| Some(port.link()) == link).unwrap_or(0) as u32;
            let variants = (0..self.multiplicity).filter(|nth| nth % links.len() as u32 == rank);
            let evs = variants.flat_map(|nth| {
                let last = u32::from(self.switch_sid(far, nth)) << 16;
                middle.iter().map(move |&switch| last | u32::from(self.switch_sid(switch, nth)))
            });
            by_port.push(evs.collect());
        }
        // One of each port in turn, as engines take the first ones.
        let longest = by_port.iter().map(Vec::len).max().unwrap_or(0);
        let turns = (0..longest).flat_map(|nth| (0..).zip(&by_port).map(move |(port, evs)| (evs.get(nth), port)));
        turns.filter_map(|(ev, port)| Some((*ev?, port))).collect()
    }

    /// All switches.
    pub(crate) fn switches(&self, seed: u64) -> Vec<Switch> {
        let mut salts = Rng::new(seed ^ 0x73_616c_7473);
        let summary = self.summary();
        let srv6 = self.spec.scheme.paths() == PathNames::MicroSids;
        let tables = self.tables.get_or_init(|| {
            let shared = self.classes();
            (0..self.neighbours.len() as u32).map(|at| self.table(at, &shared)).collect()
        });
        let sids = srv6.then(|| self.sid_tables.get_or_init(|| self.sid_tables()));
        let mut sids = sids.into_iter().flatten();
        let mut switches = Vec::with_capacity(tables.len());
        for (at, table) in (0..).zip(tables.iter().cloned()) {
            let salt = salts.next_u64();
            let spine = self.level[at as usize] > 0;
            let site = Site { clos: &summary, plane: self.part[at as usize] as u8, spine, index: at as u16, salt };
            let scheme = match sids.next() {
                Some(table) => crate::scheme::srv6_of_graph(self.spec.block, at, self.width(), Arc::clone(table)),
                None => self.spec.scheme.build(&site),
            };
            switches.push(Switch::new(self.spec.switches[at as usize].clone(), Routes::of_table(table), scheme, salt));
        }
        switches
    }

    /// A Clos of about this size, for schemes that look at no more than that.
    fn summary(&self) -> Clos {
        let leaves = self.level.iter().filter(|&&level| level == 0).count() as u16;
        let links = &self.spec.links;
        let host = self.host_links.iter().flatten().map(|&link| links[link as usize].spec).max_by_key(|l| l.rate_bps);
        Clos {
            planes: self.planes,
            t0: leaves.max(1),
            t1: self.level.len() as u16 - leaves,
            hosts: self.spec.hosts,
            host_link: host.unwrap_or(LinkSpec::new(100, 500)),
            switch_latency_ns: self.spec.switch_latency_ns,
            queue: self.spec.queue,
            scheme: self.spec.scheme,
            ..Clos::default()
        }
    }

    /// Sets of switches that hosts hang below, per part of the graph.
    fn classes(&self) -> Classes {
        let parts = self.part.iter().max().map_or(0, |&last| last as usize + 1);
        let mut by_set: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut of_host = vec![vec![NONE; self.spec.hosts as usize]; parts];
        for host in 0..self.spec.hosts {
            let mut sets: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for switch in (0..self.planes).filter_map(|port| self.leaf(host, port)) {
                sets.entry(self.part[switch as usize]).or_default().push(switch);
            }
            for (part, mut set) in sets {
                set.sort_unstable();
                set.dedup();
                let next = by_set.len() as u32;
                of_host[part as usize][host as usize] = *by_set.entry(set).or_insert(next);
            }
        }
        let mut distances = vec![Vec::new(); by_set.len()];
        for (set, class) in &by_set {
            distances[*class as usize] = self.distances(set);
        }
        Classes { of_host: of_host.into_iter().map(Arc::from).collect(), distances }
    }

    fn table(&self, at: u32, classes: &Classes) -> Table {
        let upwards = self.neighbours[at as usize].iter().filter(|(_, to)| self.level[*to as usize] >= self.level(at));
        let mut groups = vec![Choice::new(upwards.map(|(port, _)| *port).collect())];
        let mut numbers: BTreeMap<Vec<PortId>, u32> = BTreeMap::new();
        let mut group = |ports: Vec<PortId>| {
            let next = groups.len() as u32;
            *numbers.entry(ports.clone()).or_insert_with(|| {
                groups.push(Choice::new(ports));
                next
            })
        };
        let mut below: Vec<(u32, u32)> = Vec::new();
        for hosts in self.below[at as usize].chunk_by(|a, b| a.0 == b.0) {
            below.push((hosts[0].0, group(hosts.iter().map(|(_, port)| *port).collect())));
        }
        let of_class = classes.distances.iter().map(|distance| {
            let mut ports: Vec<PortId> = self.next_hops(at, distance).map(|(port, _)| port).collect();
            ports.sort_unstable();
            if ports.is_empty() { NONE } else { group(ports) }
        });
        let of_class = of_class.collect();
        Table { of_host: classes.of_host[self.part[at as usize] as usize].clone(), of_class, below, groups }
    }

    /// By switch: the ports behind each micro-SID that is not its own.
    fn sid_tables(&self) -> Vec<Arc<SidTable>> {
        let mut tables = vec![SidTable::default(); self.neighbours.len()];
        for to in 0..self.neighbours.len() as u32 {
            let distance = self.distances(&[to]);
            for at in (0..self.neighbours.len() as u32).filter(|&at| at != to && distance[at as usize] != NONE) {
                let mut ports: Vec<PortId> = self.next_hops(at, &distance).map(|(port, _)| port).collect();
                ports.sort_unstable();
                tables[at as usize].switches.push((to, ports.into()));
            }
        }
        for (at, table) in tables.iter_mut().enumerate() {
            for hosts in self.below[at].chunk_by(|a, b| a.0 == b.0) {
                let ports: Vec<PortId> = hosts.iter().map(|(_, port)| *port).collect();
                table.hosts.push((self.host_sid(hosts[0].0), ports.into()));
            }
            table.hosts.sort_unstable_by_key(|(sid, _)| *sid);
        }
        tables.into_iter().map(Arc::new).collect()
    }

    /// All ports in the order of their ids.
    pub(crate) fn ports(&self) -> Vec<Port> {
        let latency = self.spec.switch_latency_ns;
        let mut ports = Vec::with_capacity(self.spec.links.len() * 2);
        for (nth, link) in (0u32..).zip(&self.spec.links) {
            let owner = |node| match node {
                Node::Host(host) => {
                    let plane = self.host_links[host as usize].iter().position(|&other| other == nth).unwrap_or(0);
                    Owner::Host { host, plane: plane as u8 }
                }
                Node::Switch(switch) => Owner::Switch(switch),
            };
            let of = |node| if matches!(node, Node::Host(_)) { 0 } else { latency };
            let to_host = |node| matches!(node, Node::Host(_));
            for (near, far) in [(link.a, link.b), (link.b, link.a)] {
                ports.push(Port::new(owner(near), link.spec, to_host(far), of(far), of(near)));
            }
        }
        ports
    }
}

/// By part of the graph and host, its set of switches; by set, distances of all switches.
struct Classes {
    of_host: Vec<Arc<[u32]>>,
    distances: Vec<Vec<u32>>,
}

/// Ports by micro-SID, as one switch knows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SidTable {
    /// By switch, in order: the ports of parallel links or paths.
    pub(crate) switches: Vec<(u32, Box<[PortId]>)>,
    /// By micro-SID, in order.
    pub(crate) hosts: Vec<(u16, Box<[PortId]>)>,
}

/// Distance of each switch from the nearest one with hosts.
fn levels(spec: &GraphSpec) -> Vec<u8> {
    let mut level = vec![u8::MAX; spec.switches.len()];
    let pairs: Vec<(Node, Node)> = spec.links.iter().map(|link| (link.a, link.b)).collect();
    for &(a, b) in &pairs {
        if let (Node::Host(_), Node::Switch(switch)) = (a, b) {
            level[switch as usize] = 0;
        }
    }
    for next in 1..u8::MAX {
        let mut found = Vec::new();
        for &(a, b) in &pairs {
            let (Node::Switch(a), Node::Switch(b)) = (a, b) else { continue };
            for (low, high) in [(a, b), (b, a)] {
                if level[low as usize] == next - 1 && level[high as usize] == u8::MAX {
                    found.push(high);
                }
            }
        }
        if found.is_empty() {
            break;
        }
        found.into_iter().for_each(|switch| level[switch as usize] = next);
    }
    level
}

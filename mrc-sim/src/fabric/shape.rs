//! The fabric of a run, whatever its form: a [`Clos`], whose numbering is arithmetic, or a [`Graph`]. Owns what both have in
//! common, and the time that a packet needs on a path with nothing in its way.

use std::sync::Arc;

use mrc_core::{MAX_PORTS, PortMask};

use super::graph::{Graph, GraphError, GraphSpec, Node};
use super::port::{LinkSpec, Port};
use super::queue::QueueSpec;
use super::scheme::Scheme;
use super::switch::Switch;
use super::topology::{Clos, LinkId, PortId, Tier, TopologyError};

/// Bytes of a packet that a cut-through switch waits for: the smallest Ethernet frame.
pub(crate) const HEAD_BYTES: u32 = 64;
/// Leaves among which the farthest pair is looked for.
const MOST_LEAVES: usize = 48;

/// Time from the first bit of a packet of `bytes` on the first of these links to its last bit at the end of the last one, with
/// nothing in the way. Each serialisation counts in whole nanoseconds, rounded up.
pub(crate) fn one_way_ns(links: &[LinkSpec], bytes: u32, latency_ns: u32, cut_through: bool) -> u64 {
    one_way(links, bytes, (latency_ns, cut_through), f64::ceil) as u64
}

/// The least time that a link takes for a packet, in whole nanoseconds: the fabric's clock cuts off fractions where a link was idle.
pub(crate) fn serialisation_ns(link: &LinkSpec, bytes: u32) -> f64 {
    exact_ns(link, bytes).floor()
}

fn exact_ns(link: &LinkSpec, bytes: u32) -> f64 {
    f64::from(bytes) * 8e9 / link.rate_bps.max(1) as f64
}

fn one_way(links: &[LinkSpec], bytes: u32, (latency_ns, cut_through): (u32, bool), round: impl Fn(f64) -> f64) -> f64 {
    let ns = |link: &LinkSpec, bytes: u32| round(exact_ns(link, bytes));
    let hop = |pair: &[LinkSpec]| {
        let waits = if cut_through && pair[1].rate_bps <= pair[0].rate_bps { bytes.min(HEAD_BYTES) } else { bytes };
        ns(&pair[0], waits) + f64::from(pair[0].delay_ns) + f64::from(latency_ns)
    };
    let last = links.last().map_or(0.0, |last| ns(last, bytes) + f64::from(last.delay_ns));
    links.windows(2).map(hop).sum::<f64>() + last
}

/// Why a fabric cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// A Clos.
    #[error("{0}")]
    Clos(#[from] TopologyError),
    /// A graph.
    #[error("{0}")]
    Graph(#[from] GraphError),
}

/// The fabric of a run.
#[derive(Clone, Debug)]
pub enum Topology {
    /// Two tiers per plane, or a dumbbell.
    Clos(Clos),
    /// Any other.
    Graph(Arc<Graph>),
}

impl From<Clos> for Topology {
    fn from(clos: Clos) -> Self {
        Self::Clos(clos)
    }
}

impl From<&Clos> for Topology {
    fn from(clos: &Clos) -> Self {
        Self::Clos(*clos)
    }
}

impl From<Graph> for Topology {
    fn from(graph: Graph) -> Self {
        Self::Graph(Arc::new(graph))
    }
}

macro_rules! common {
    ($($(#[$doc:meta])* $name:ident: $ty:ty;)*) => {
        $($(#[$doc])* pub fn $name(&self) -> $ty {
            match self {
                Self::Clos(clos) => clos.$name,
                Self::Graph(graph) => graph.spec().$name,
            }
        })*
    };
}

impl Topology {
    common! {
        /// Number of hosts.
        hosts: u32;
        /// Every egress port of a switch.
        queue: QueueSpec;
        /// How switches treat packets.
        scheme: Scheme;
        /// Time from a frame's last bit in to its place in the egress queue.
        switch_latency_ns: u32;
        /// Whether switches begin to forward when they have the header.
        cut_through: bool;
        /// Upper 32 bits of all SIDs.
        block: u32;
    }

    /// Checks what the type does not.
    ///
    /// # Errors
    /// A Clos that cannot be addressed.
    pub fn validate(&self) -> Result<(), TopologyError> {
        match self {
            Self::Clos(clos) => clos.validate(),
            Self::Graph(graph) if graph.spec().queue.trim.is_some() && graph.spec().queue.pfc.is_some() => {
                Err(TopologyError::TrimAndPfc)
            }
            Self::Graph(_) => Ok(()),
        }
    }

    /// The same with other queues.
    ///
    /// # Errors
    /// None for what was valid before.
    pub fn with_queue(&self, queue: QueueSpec) -> Result<Self, ShapeError> {
        Ok(match self {
            Self::Clos(clos) => Self::Clos(Clos { queue, ..*clos }),
            Self::Graph(graph) => Graph::new(GraphSpec { queue, ..graph.spec().clone() })?.into(),
        })
    }

    /// The Clos, where it is one.
    pub fn as_clos(&self) -> Option<&Clos> {
        match self {
            Self::Clos(clos) => Some(clos),
            Self::Graph(_) => None,
        }
    }

    /// Most ports of a host.
    pub fn planes(&self) -> u8 {
        match self {
            Self::Clos(clos) => clos.planes,
            Self::Graph(graph) => graph.planes(),
        }
    }

    /// Ports of a host.
    pub fn host_ports(&self, host: u32) -> u8 {
        match self {
            Self::Clos(clos) => clos.planes,
            Self::Graph(graph) => graph.host_ports(host),
        }
    }

    /// The same as a set.
    pub fn port_mask(&self, host: u32) -> PortMask {
        PortMask::first(self.host_ports(host).min(MAX_PORTS as u8))
    }

    /// The fastest link of a host: what rates refer to.
    pub fn host_link(&self) -> LinkSpec {
        match self {
            Self::Clos(clos) => clos.host_link,
            Self::Graph(graph) => {
                let links = graph.spec().links.iter().filter(|link| matches!(link.a, Node::Host(_)));
                links.map(|link| link.spec).max_by_key(|spec| spec.rate_bps).unwrap_or(LinkSpec::new(100, 500))
            }
        }
    }

    /// Number of links.
    pub fn links(&self) -> u32 {
        match self {
            Self::Clos(clos) => clos.links(),
            Self::Graph(graph) => graph.spec().links.len() as u32,
        }
    }

    /// Rate and delay of a link as the topology has it.
    pub fn link_spec(&self, link: LinkId) -> LinkSpec {
        match self {
            Self::Clos(clos) if clos.is_host_link(link) => clos.host_link,
            Self::Clos(clos) => clos.fabric_link,
            Self::Graph(graph) => graph.spec().links[link.0 as usize].spec,
        }
    }

    /// The link behind a port of `host`.
    ///
    /// # Panics
    /// When it does not have that port.
    pub fn host_link_id(&self, plane: u8, host: u32) -> LinkId {
        match self {
            Self::Clos(clos) => clos.host_link_id(plane, host),
            Self::Graph(graph) => graph.host_link(host, plane).expect("a port that the host has"),
        }
    }

    /// Whether a link joins a host to the fabric.
    pub fn is_host_link(&self, link: LinkId) -> bool {
        self.tier(link.lower()) == Tier::Host
    }

    /// The tier of an egress port.
    pub fn tier(&self, port: PortId) -> Tier {
        match self {
            Self::Clos(clos) => clos.tier(port),
            Self::Graph(graph) => graph.tier(port),
        }
    }

    /// Name of a link.
    pub fn link_name(&self, link: LinkId) -> String {
        match self {
            Self::Clos(clos) => clos.link_name(link),
            Self::Graph(graph) => graph.spec().links[link.0 as usize].name.clone(),
        }
    }

    /// Number of switches.
    pub fn switch_count(&self) -> u32 {
        match self {
            Self::Clos(clos) => clos.switch_count(),
            Self::Graph(graph) => graph.spec().switches.len() as u32,
        }
    }

    /// Name of a switch.
    pub fn switch_name(&self, index: u32) -> String {
        match self {
            Self::Clos(clos) => clos.switch_name(index),
            Self::Graph(graph) => graph.spec().switches[index as usize].clone(),
        }
    }

    /// Distance of a switch from the nearest one with hosts: 0 of a T0, 1 of a T1.
    pub fn switch_level(&self, index: u32) -> u8 {
        match self {
            Self::Clos(clos) => u8::from(index % u32::from(clos.t0 + clos.t1) >= u32::from(clos.t0)),
            Self::Graph(graph) => graph.level(index),
        }
    }

    /// A number that hosts below the same first switch share.
    pub fn leaf_of(&self, host: u32) -> u32 {
        match self {
            Self::Clos(clos) => clos.t0_of(host).into(),
            Self::Graph(graph) => graph.leaf(host, 0).unwrap_or(0),
        }
    }

    /// All switch links that leave the leaves upwards: what loads of uplinks refer to.
    pub fn uplinks(&self) -> impl Iterator<Item = LinkId> {
        (0..self.links()).map(LinkId).filter(|link| self.tier(link.lower()) == Tier::T0Up)
    }

    /// Time from the first bit of a packet of `there` bytes to the last bit of its answer of `back` bytes, between the hosts
    /// that are farthest apart, with nothing in the way.
    pub fn base_rtt_ns(&self, there: u32, back: u32) -> u64 {
        let graph = match self {
            Self::Clos(clos) => return clos.base_rtt_ns(there, back),
            Self::Graph(graph) => graph,
        };
        let mut leaves: Vec<(u32, u32)> = (0..self.hosts()).map(|host| (self.leaf_of(host), host)).collect();
        leaves.sort_unstable();
        leaves.dedup_by_key(|(leaf, _)| *leaf);
        // In a regular fabric the last leaf is as far from the first as any.
        let (first, last) = leaves.split_at(leaves.len().min(MOST_LEAVES));
        let ends = first.iter().chain(last.last());
        let hosts: Vec<u32> = ends.map(|(_, host)| *host).chain([graph.spec().hosts - 1]).collect();
        let pairs = hosts.iter().flat_map(|&a| hosts.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
        pairs.map(|(a, b)| self.pair_rtt_ns(a, b, there, back)).max().unwrap_or(1)
    }

    /// The same between these two hosts, over the fastest path.
    pub fn pair_rtt_ns(&self, from: u32, to: u32, there: u32, back: u32) -> u64 {
        match self {
            Self::Clos(clos) => clos.pair_rtt_ns(from, to, there, back),
            Self::Graph(_) => {
                let time = |path: Vec<LinkId>| {
                    let links: Vec<LinkSpec> = path.into_iter().map(|link| self.link_spec(link)).collect();
                    self.round_trip_ns(&links, there, back)
                };
                let ports = (0..self.host_ports(from))
                    .flat_map(|port| self.arrivals(port, from, to).into_iter().map(move |there| (port, there)));
                ports.flat_map(|ports| self.paths(ports, from, to)).map(time).min().unwrap_or(0)
            }
        }
    }

    /// The same over these links, there and back.
    pub fn round_trip_ns(&self, links: &[LinkSpec], there: u32, back: u32) -> u64 {
        let returns: Vec<LinkSpec> = links.iter().rev().copied().collect();
        self.one_way_ns(links, there) + self.one_way_ns(&returns, back)
    }

    fn one_way_ns(&self, links: &[LinkSpec], bytes: u32) -> u64 {
        one_way_ns(links, bytes, self.switch_latency_ns(), self.cut_through())
    }

    /// The least time from the first bit of a packet of `bytes` at the sender to its last one at the receiver, over these links:
    /// each serialisation in whole nanoseconds, rounded down.
    pub(crate) fn least_one_way_ns(&self, links: &[LinkSpec], bytes: u32) -> f64 {
        one_way(links, bytes, (self.switch_latency_ns(), self.cut_through()), f64::floor)
    }

    /// Ports of `to` at which packets arrive that leave `from` by `port`.
    pub fn arrivals(&self, port: u8, from: u32, to: u32) -> Vec<u8> {
        match self {
            Self::Clos(_) => vec![port],
            Self::Graph(graph) => graph.arrivals(port, from, to),
        }
    }

    /// Shortest paths from a port of one host to a port of another, by their links; in large graphs some of them.
    pub fn paths(&self, (port, there): (u8, u8), from: u32, to: u32) -> Vec<Vec<LinkId>> {
        let ends = [self.host_link_id(port, from), self.host_link_id(there, to)];
        let whole = |middle: Vec<LinkId>| std::iter::once(ends[0]).chain(middle).chain([ends[1]]).collect::<Vec<_>>();
        let middles = match self {
            Self::Graph(graph) => match (graph.leaf(from, port), graph.leaf(to, there)) {
                (Some(near), Some(far)) => graph.paths(near, far),
                _ => Vec::new(),
            },
            Self::Clos(clos) => {
                let (a, b) = (clos.t0_of(from), clos.t0_of(to));
                let over = |t1| vec![clos.fabric_link_id(port, a, t1), clos.fabric_link_id(port, b, t1)];
                match a == b {
                    true => vec![Vec::new()],
                    false if clos.is_dumbbell() => vec![vec![clos.fabric_link_id(port, 0, 0)]],
                    false => (0..clos.t1).map(over).collect(),
                }
            }
        };
        middles.into_iter().map(whole).collect()
    }

    /// The links between a port of one host and a port of another, step by step: those of a step lead equally far.
    pub fn steps(&self, (port, there): (u8, u8), from: u32, to: u32) -> Vec<Vec<LinkId>> {
        let (first, last) = (vec![self.host_link_id(port, from)], vec![self.host_link_id(there, to)]);
        let middle = match self {
            Self::Graph(graph) => match (graph.leaf(from, port), graph.leaf(to, there)) {
                (Some(near), Some(far)) => graph.steps(near, far),
                _ => Vec::new(),
            },
            Self::Clos(_) => Vec::new(),
        };
        std::iter::once(first).chain(middle).chain([last]).collect()
    }

    pub(crate) fn switches(&self, seed: u64) -> Vec<Switch> {
        match self {
            Self::Clos(clos) => clos.switches(seed),
            Self::Graph(graph) => graph.switches(seed),
        }
    }

    pub(crate) fn ports(&self) -> Vec<Port> {
        match self {
            Self::Clos(clos) => clos.ports(),
            Self::Graph(graph) => graph.ports(),
        }
    }
}

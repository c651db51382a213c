//! Settings of the MRC hosts of a run, and the sizes of their tables that follow from them.

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::path::Selector;
use mrc_core::{EndpointConfig, Limits, MAX_PORTS, OwnedStorage, RtsAttr};

use super::MrcTransport;
use super::connect::{Connection, Lane};
use crate::fabric::{Graph, PathNames, Topology};
use crate::host::PathBandwidth;
use crate::host::mrc::MrcHostError;
use crate::host::storage_bytes::storage_bytes;
use crate::workload::{Connections, Pair};

/// Headers of a data packet beside its payload: Ethernet, outer and inner IPv6, UDP, BTH, METH, TSETH, RETH, ICRC.
const DATA_HEADERS: u32 = 14 + 40 + 88;
const OUTER_HEADER: u32 = 40;
/// TSETH, which packets have unless `timestamps = false`.
const TIMESTAMP: u32 = 4;
/// The same of a SACK.
const CONTROL_BYTES: u32 = 154;
/// The same of a Transport ACK, which completes messages: an AETH in place of what a SACK has.
const ACK_BYTES: u32 = 122;
/// Most queue pairs of an engine.
const MOST_ENDS: u32 = 1 << 16;

/// Bytes that packets are given on the wire in place of their own, to compare with models of other packet formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireSizes {
    /// Added to the payload of a data packet.
    pub data_overhead: u32,
    /// Any other packet.
    pub control: u32,
}

/// Everything about the MRC hosts of a run.
#[derive(Clone, Debug)]
pub struct MrcSettings {
    /// Queue pairs per connection; a message is cut into as many pieces.
    pub qps: u32,
    /// How messages share connections.
    pub connections: Connections,
    /// Where each message has a connection of its own: most messages that a host sends, and that it receives, at once, by host.
    pub open: Vec<[u32; 2]>,
    /// Payload of a full packet, in bytes.
    pub mtu: u16,
    /// What queue pairs come up with: window, paths, timers, rules about losses. The selector is the one below.
    pub rts: RtsAttr,
    /// Paths of each plane that are used at all: the first T1s only.
    pub paths_per_plane: Option<u16>,
    /// Path selection; `None`: one path per queue pair, drawn at random.
    pub selector: Option<Selector>,
    /// Writes a queue pair holds, a power of two.
    pub send_queue: usize,
    /// Packets that a queue pair can have in flight, if less than its window, a power of two.
    pub tx_packets: usize,
    /// Knobs of the endpoint, congestion control among them.
    pub endpoint: EndpointConfig,
    /// Bytes on the wire, if not those of the headers.
    pub wire: Option<WireSizes>,
    /// Switches write into probes, answers bring it back, and this is the bandwidth of a path.
    pub telemetry: Option<PathBandwidth>,
}

impl MrcSettings {
    /// Bytes on the wire of a packet with `payload` bytes, and of a control packet.
    pub fn wire_bytes(&self, topology: &Topology, payload: u32) -> (u32, u32) {
        let data = payload + DATA_HEADERS - if self.endpoint.timestamps { 0 } else { TIMESTAMP };
        match self.wire {
            Some(sizes) => (payload + sizes.data_overhead, sizes.control),
            None if topology.scheme().paths() == PathNames::MicroSids => (data, CONTROL_BYTES),
            None => (data - OUTER_HEADER, CONTROL_BYTES - OUTER_HEADER),
        }
    }

    pub(super) fn acknowledgement_bytes(&self, topology: &Topology) -> u32 {
        match self.wire {
            Some(sizes) => sizes.control,
            None if topology.scheme().paths() == PathNames::MicroSids => ACK_BYTES,
            None => ACK_BYTES - OUTER_HEADER,
        }
    }

    /// EVs of a queue pair, in use and in reserve.
    pub(super) fn evs(&self) -> usize {
        usize::from(self.rts.paths.active) + usize::from(self.rts.paths.backup)
    }

    /// Different paths of a plane between two leaves of a Clos, as far as they are used.
    pub(super) fn uplinks(&self, uplinks: u16) -> u16 {
        self.paths_per_plane.unwrap_or(u16::MAX).min(uplinks).max(1)
    }

    /// The paths between two hosts of a graph whose senders write them, as far as they are used, with their ports.
    pub(super) fn path_evs(&self, graph: &Graph, from: u32, to: u32) -> Vec<(u32, u8)> {
        let most = usize::from(self.paths_per_plane.unwrap_or(u16::MAX).max(1));
        let mut of_port = [0; MAX_PORTS];
        let mut evs = graph.path_evs(from, to);
        evs.retain(|&(_, port)| {
            of_port[usize::from(port)] += 1;
            of_port[usize::from(port)] <= most
        });
        evs
    }

    /// Profiles of a host that talks to `peers`, and entries of the largest one.
    fn profiles(&self, topology: &Topology, host: u32, peers: &[u32], known: &mut EvCounts) -> (usize, usize) {
        let all = |uplinks| usize::from(topology.planes()) * usize::from(self.uplinks(uplinks));
        match (topology.scheme().paths(), topology) {
            (PathNames::MicroSids | PathNames::UplinkNumbers, Topology::Clos(clos)) => {
                let kinds: BTreeSet<bool> = peers.iter().map(|&peer| clos.t0_of(peer) != clos.t0_of(host)).collect();
                (kinds.len().max(1), all(clos.uplinks()))
            }
            (PathNames::MicroSids | PathNames::UplinkNumbers, Topology::Graph(graph)) => {
                let leaves = |host| (0..graph.host_ports(host)).filter_map(|port| graph.leaf(host, port)).collect();
                let near: Vec<u32> = leaves(host);
                let mut far: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
                far.extend(peers.iter().map(|&peer| (leaves(peer), peer)));
                let counts = far.iter().map(|(there, &peer)| {
                    let count = || self.path_evs(graph, host, peer).len();
                    *known.entry((near.clone(), there.clone())).or_insert_with(count)
                });
                // Hosts that share two links to a leaf have different paths below it.
                (peers.len().max(1).min(8 * far.len().max(1)), counts.max().unwrap_or(1).max(1))
            }
            // Switches hash: the EVs are names for paths that nobody knows.
            (PathNames::Entropy, _) => {
                let ports = |&peer: &u32| topology.host_ports(host).min(topology.host_ports(peer));
                let kinds: BTreeSet<u8> = peers.iter().map(ports).collect();
                (kinds.len().max(1), self.evs())
            }
        }
    }

    /// Sizes of the tables of a host that talks to `peers`.
    fn limits(&self, topology: &Topology, host: u32, peers: &Peers, known: &mut EvCounts) -> Limits {
        let (ev_profiles, profile_evs) = self.profiles(topology, host, &peers.0, known);
        let qps = self.most_ends(host, peers) as usize;
        let peers = peers.0.len();
        let evs = profile_evs.min(self.evs()).max(1);
        Limits {
            qps,
            mpr: self.rts.mpr.into(),
            tx_packets: self.tx_packets,
            send_queue: self.send_queue,
            recv_queue: 0,
            wimm: 0,
            evs,
            active_evs: evs.min(usize::from(self.rts.paths.active)).max(1),
            cqs: 1,
            // Completions are taken after each input: what finds no room waits in its queue pair until then.
            cq_depth: (qps * self.send_queue).clamp(16, 64).next_power_of_two(),
            mrs: 1,
            peers: peers.max(1),
            planes: topology.host_ports(host).clamp(1, MAX_PORTS as u8).into(),
            srv6_peers: if topology.scheme().paths() == PathNames::MicroSids { peers.max(1) } else { 0 },
            cc_profiles: 1,
            qpccs: peers.max(1),
            // A host of the simulator sends after each packet that it takes.
            refusals: 16,
            ev_profiles,
            profile_evs,
            events: 1,
        }
    }

    /// Most queue pairs that a host which talks to `peers` has at once.
    fn most_ends(&self, host: u32, peers: &Peers) -> u32 {
        let connections = match self.open.get(host as usize) {
            Some(&[sent, received]) if !peers.0.is_empty() => sent.saturating_add(received),
            Some(_) => 0,
            None => peers.1,
        };
        connections.saturating_mul(self.qps).clamp(1, MOST_ENDS)
    }

    /// Most queue pairs that the hosts of a plan have at once.
    pub fn ends(&self, topology: &Topology, pairs: &[Pair]) -> u64 {
        (0..).zip(&Self::peers(topology, pairs)).map(|(host, peers)| u64::from(self.most_ends(host, peers))).sum()
    }

    /// Bytes that the hosts of a plan will take, at most: while the run is set up, a host is in two places.
    pub fn bytes(&self, topology: &Topology, pairs: &[Pair]) -> u64 {
        let mut known = EvCounts::new();
        let host_bytes = 2 * size_of::<MrcTransport<'_>>() as u64;
        let of_host = |(host, peers): (u32, &Peers)| {
            let connections = peers.0.len() as u64 * size_of::<Connection>() as u64;
            let lanes = u64::from(self.most_ends(host, peers)) * size_of::<Lane>() as u64;
            storage_bytes(&self.limits(topology, host, peers, &mut known)) + connections + lanes + host_bytes
        };
        (0..).zip(&Self::peers(topology, pairs)).map(of_host).sum()
    }

    /// The others each host is connected to.
    fn peers(topology: &Topology, pairs: &[Pair]) -> Vec<Peers> {
        let mut peers = vec![Peers::default(); topology.hosts() as usize];
        for &Pair { a, b, connections } in pairs {
            for (host, peer) in [(a, b), (b, a)] {
                peers[host as usize].0.push(peer);
                peers[host as usize].1 += connections;
            }
        }
        peers
    }

    /// Storage for the hosts of a plan, one each.
    ///
    /// # Errors
    /// Limits that the engine refuses.
    pub fn storages(&self, topology: &Topology, pairs: &[Pair]) -> Result<Vec<OwnedStorage>, MrcHostError> {
        let mut known = EvCounts::new();
        let storage =
            |(host, peers): (u32, &Peers)| Ok(OwnedStorage::new(self.limits(topology, host, peers, &mut known))?);
        (0..).zip(&Self::peers(topology, pairs)).map(storage).collect()
    }
}

/// The others that a host is connected to, and its connections.
type Peers = (Vec<u32>, u32);

/// Numbers of paths, by the leaves of both hosts.
type EvCounts = BTreeMap<(Vec<u32>, Vec<u32>), usize>;

//! MRC as a transport of messages: the engine, its queue pairs, and the translation between them and an [`Exchange`].
//!
//! Messages are RDMA writes between regions that have addresses and no bytes. The address of a byte says to which message
//! it belongs, so every placement is checked: a byte that arrives in a wrong place or twice is counted.

mod ahead;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mrc_core::path::{EvEntry, EvIndex, PathConfig, Selector, auto_profile, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, EvProfileHandle, IcrcCheck, Instant, Limits, MAX_PORTS, MemRange,
    MrHandle, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpHandle, QpInit, Received, RetryConfig,
    Rng, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status, Trimming,
};
use mrc_wire::{Ev, EvTemplate, Ip, PortNum, Psn, Rkey};

use super::mrc::{MrcHostError, PLANE_LSB, icrc_of};
use super::storage_bytes::storage_bytes;
use super::telemetry::{PathBandwidth, Telemetry};
use super::transport::{PathCounts, PathRow, Transport, TransportCounters, payload_tag, uncut_len};
use super::{Soon, Upcoming};
use crate::fabric::{Graph, Packet, PathNames, Topology, address};
use crate::host::Host;
use crate::workload::{Connections, Exchange, Pair};

/// Bits of an address within a message; the message's number is above them.
const OFFSET_BITS: u32 = 36;
/// Bits of a message's number in a work request, see [`crate::workload::Plan::MAX_MESSAGES`]; lane and peer are above them.
const MESSAGE_BITS: u32 = 28;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const PD: Pd = Pd(1);
/// Queue pairs with no more than this are taken to stay in the caches of a processor.
const CACHED_BYTES: usize = 8 << 20;
/// Headers of a data packet beside its payload: Ethernet, outer and inner IPv6, UDP, BTH, METH, TSETH, RETH, ICRC.
const DATA_HEADERS: u32 = 14 + 40 + 88;
const OUTER_HEADER: u32 = 40;
/// TSETH, which packets have unless `timestamps = false`.
const TIMESTAMP: u32 = 4;
/// The same of a SACK.
const CONTROL_BYTES: u32 = 154;
/// The same of a Transport ACK, which completes messages: an AETH in place of what a SACK has.
const ACK_BYTES: u32 = 122;

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
    /// Payload of a full packet, in bytes.
    pub mtu: u16,
    /// Window of a queue pair in units of 128 PSNs, a power of two.
    pub mpr: u8,
    /// EVs of a queue pair that are used and kept in reserve, and what retires them.
    pub paths: PathConfig,
    /// Paths of each plane that are used at all: the first T1s only.
    pub paths_per_plane: Option<u16>,
    /// Path selection; `None`: one path per queue pair, drawn at random.
    pub selector: Option<Selector>,
    /// Whether the fabric trims and receivers say so.
    pub trimming: bool,
    /// Timers.
    pub retry: RetryConfig,
    /// Unloaded round trip, in nanoseconds.
    pub base_rtt_ns: u64,
    /// Added to three round trips before a probe counts as lost.
    pub target_delay_ns: u64,
    /// Writes a queue pair holds, a power of two.
    pub send_queue: usize,
    /// Packets that a queue pair can have in flight, if less than its window, a power of two.
    pub tx_packets: usize,
    /// Loss inference: least packets, and share of the window in 1/256.
    pub reorder: (u16, u16),
    /// Loss inference by time, in nanoseconds; 0: none.
    pub reorder_delay_ns: u64,
    /// From the last packet there is to send to the probe that follows it, in nanoseconds; 0: none does.
    pub tail_probe_ns: u64,
    /// Shortest time between two probes of a queue pair, in nanoseconds.
    pub probe_rate_limit_ns: u64,
    /// Distance of the probes of a silent peer, in nanoseconds; 0: none.
    pub keepalive_ns: u64,
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

    fn acknowledgement_bytes(&self, topology: &Topology) -> u32 {
        match self.wire {
            Some(sizes) => sizes.control,
            None if topology.scheme().paths() == PathNames::MicroSids => ACK_BYTES,
            None => ACK_BYTES - OUTER_HEADER,
        }
    }

    /// Different paths of a plane between two leaves of a Clos, as far as they are used.
    fn uplinks(&self, uplinks: u16) -> u16 {
        self.paths_per_plane.unwrap_or(u16::MAX).min(uplinks).max(1)
    }

    /// The paths between two hosts of a graph whose senders write them, as far as they are used, with their ports.
    fn path_evs(&self, graph: &Graph, from: u32, to: u32) -> Vec<(u32, u8)> {
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
                (kinds.len().max(1), usize::from(self.paths.active + self.paths.backup))
            }
        }
    }

    /// Sizes of the tables of a host that talks to `peers`.
    fn limits(&self, topology: &Topology, host: u32, peers: &Peers, known: &mut EvCounts) -> Limits {
        let (ev_profiles, profile_evs) = self.profiles(topology, host, &peers.0, known);
        let qps = (peers.1 as usize * self.qps as usize).max(1);
        let peers = peers.0.len();
        let evs = profile_evs.min(usize::from(self.paths.active + self.paths.backup)).max(1);
        Limits {
            qps,
            mpr: self.mpr.into(),
            tx_packets: self.tx_packets,
            send_queue: self.send_queue,
            recv_queue: 0,
            wimm: 0,
            evs,
            active_evs: evs.min(usize::from(self.paths.active)).max(1),
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

    /// Bytes that the hosts of a plan will take.
    pub fn bytes(&self, topology: &Topology, pairs: &[Pair]) -> u64 {
        let lane = size_of::<Lane>() as u64;
        let mut known = EvCounts::new();
        let of_host = |(host, peers): (u32, &Peers)| {
            let connections = peers.0.len() as u64 * size_of::<Connection>() as u64;
            let lanes = u64::from(peers.1) * u64::from(self.qps.max(4)) * lane;
            storage_bytes(&self.limits(topology, host, peers, &mut known)) + connections + lanes
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

/// What hosts that share an EV profile have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ProfileOf {
    /// Whether they are below different leaves of a Clos.
    Across(bool),
    /// Ports that both ends have.
    Ports(u8),
    /// The paths.
    Paths(Vec<(u32, u8)>),
}

/// A queue pair and the pieces of messages that wait for room in it.
struct Lane {
    qp: QpHandle,
    /// Message, first byte, bytes.
    backlog: VecDeque<(u32, u64, u32)>,
    posted: usize,
}

/// The queue pairs to one other host.
struct Connection {
    peer: u32,
    rkey: Rkey,
    /// Those of a connection follow one another.
    lanes: Vec<Lane>,
    /// The connection whose turn it is.
    next: usize,
}

impl Connection {
    /// The first lane of the connection that takes the next message, and whether the message waits behind another one there
    /// although none should.
    fn choose(&mut self, connections: Connections, qps: usize) -> (usize, bool) {
        let count = self.lanes.len() / qps.max(1);
        if connections != Connections::PerMessage {
            self.next += 1;
            return ((self.next - 1) % count.max(1) * qps, false);
        }
        let waiting = |nth: usize| {
            let lanes = &self.lanes[nth * qps..(nth + 1) * qps];
            lanes.iter().map(|lane| lane.posted + lane.backlog.len()).sum::<usize>()
        };
        match (0..count).find(|&nth| waiting(nth) == 0) {
            Some(idle) => (idle * qps, false),
            None => ((0..count).min_by_key(|&nth| waiting(nth)).unwrap_or(0) * qps, true),
        }
    }
}

/// The SID of a host's port.
fn sid_of(topology: &Topology, plane: u8, host: u32) -> [u8; 16] {
    match topology {
        Topology::Clos(clos) => clos.plan().sid(clos.plan().host(plane, clos.host_index(host))),
        Topology::Graph(graph) => graph.sid(host),
    }
}

/// A host with one endpoint that carries messages.
pub struct MrcTransport<'s> {
    index: u32,
    endpoint: Endpoint<'s>,
    cq: CqHandle,
    region: MrHandle,
    profiles: BTreeMap<ProfileOf, (EvProfileHandle, u32)>,
    /// Draws the paths of queue pairs that keep to one.
    rng: Rng,
    /// By peer.
    connections: Vec<Connection>,
    /// The peers alone, in the same order: a search reads few lines of memory.
    peers: Vec<u32>,
    qps: u32,
    shared: Connections,
    send_queue: usize,
    crowded: u64,
    wire: Option<WireSizes>,
    packet: (u32, u32),
    acknowledgement: u32,
    path_state_bytes: usize,
    telemetry: Option<Box<Telemetry>>,
    fetches: bool,
}

impl<'s> MrcTransport<'s> {
    /// All hosts of a run, connected for `pairs`, in `storages` from [`MrcSettings::storages`].
    ///
    /// # Errors
    /// A setting that the engine refuses.
    pub fn build(
        settings: &MrcSettings,
        topology: &Topology,
        pairs: &[Pair],
        storages: &'s mut [OwnedStorage],
        seed: u64,
    ) -> Result<Vec<Self>, MrcHostError> {
        let mut hosts = Vec::with_capacity(storages.len());
        for (index, storage) in (0..topology.hosts()).zip(storages) {
            hosts.push(Self::new(settings, topology, index, storage, seed)?);
        }
        for pair in pairs {
            let (a, b) = (pair.a, pair.b);
            let [a, b] = hosts.get_disjoint_mut([a as usize, b as usize]).map_err(|_| MrcHostError::Pair(a, b))?;
            Self::connect(settings, topology, a, b, pair.connections)?;
        }
        let of_qps = |host: &Self| host.endpoint.limits().bytes_per_qp() * host.endpoint.limits().qps;
        let fetches = hosts.iter().map(of_qps).sum::<usize>() > CACHED_BYTES;
        for host in &mut hosts {
            host.fetches = fetches;
            host.connections.sort_unstable_by_key(|connection| connection.peer);
            host.peers = host.connections.iter().map(|connection| connection.peer).collect();
        }
        Ok(hosts)
    }

    fn new(
        settings: &MrcSettings,
        topology: &Topology,
        index: u32,
        storage: &'s mut OwnedStorage,
        seed: u64,
    ) -> Result<Self, MrcHostError> {
        if usize::from(topology.planes()) > MAX_PORTS {
            return Err(MrcHostError::Planes(topology.planes()));
        }
        let mut config = settings.endpoint.clone();
        config.ports = [None; MAX_PORTS];
        for (plane, port) in (0..topology.host_ports(index)).zip(&mut config.ports) {
            let sid = sid_of(topology, plane, index);
            *port = Some(PortConfig { mac: address::host_mac(plane, index), sid: Some(sid), addr: None });
        }
        config.gids = [Some(Ip::V6(address::gid(index))), None, None, None];
        let seed = seed ^ (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut endpoint = Endpoint::new(config, storage.lend(), seed)?;
        let cq = endpoint.create_cq()?;
        let region = endpoint.register_mr(PD, MemRange { va: 0, len: 1 << 63 }, Access::REMOTE_WRITE)?;
        Ok(Self {
            index,
            endpoint,
            cq,
            region,
            profiles: BTreeMap::new(),
            rng: Rng::new(!seed),
            connections: Vec::new(),
            peers: Vec::new(),
            qps: settings.qps,
            shared: settings.connections,
            send_queue: settings.send_queue,
            crowded: 0,
            wire: settings.wire,
            packet: (settings.wire_bytes(topology, settings.mtu.into()).0, settings.mtu.into()),
            acknowledgement: settings.acknowledgement_bytes(topology),
            telemetry: settings.telemetry.map(|bandwidth| Box::new(Telemetry::new(bandwidth))),
            fetches: false,
            path_state_bytes: settings.selector.map_or(0, |selector| {
                selector.state_bytes(usize::from(settings.paths.active) + usize::from(settings.paths.backup))
            }),
        })
    }

    fn connect(
        settings: &MrcSettings,
        topology: &Topology,
        a: &mut Self,
        b: &mut Self,
        connections: u32,
    ) -> Result<(), MrcHostError> {
        let keys = [&a, &b].map(|host| host.endpoint.key(host.region).expect("registered by new"));
        let count = settings.qps * connections;
        let mut lanes = [(); 2].map(|()| Vec::with_capacity(count as usize));
        let peers = [a.add_peer(topology, b.index)?, b.add_peer(topology, a.index)?];
        let other = a.index;
        for _ in 0..count {
            let qps = [a.create_qp()?, b.create_qp()?];
            for (nth, (host, to)) in [(&mut *a, b.index), (&mut *b, other)].into_iter().enumerate() {
                let (profile, entries) = host.profile(settings, topology, to)?;
                host.bring_up(settings, [qps[nth], qps[1 - nth]], peers[nth], profile, entries)?;
                lanes[nth].push(Lane { qp: qps[nth], backlog: VecDeque::new(), posted: 0 });
            }
        }
        let [lanes_a, lanes_b] = lanes;
        a.connections.push(Connection { peer: b.index, rkey: keys[1], lanes: lanes_a, next: 0 });
        b.connections.push(Connection { peer: a.index, rkey: keys[0], lanes: lanes_b, next: 0 });
        Ok(())
    }

    fn create_qp(&mut self) -> Result<QpHandle, MrcHostError> {
        Ok(self.endpoint.create_qp(&QpInit { pd: PD, send_cq: self.cq, recv_cq: self.cq })?)
    }

    fn add_peer(&mut self, topology: &Topology, peer: u32) -> Result<mrc_core::PeerHandle, MrcHostError> {
        let srv6 = topology.scheme().paths() == PathNames::MicroSids;
        let mut planes = [None; MAX_PORTS];
        for (plane, path) in (0..topology.host_ports(self.index)).zip(&mut planes) {
            let sid = sid_of(topology, plane, self.index);
            *path = Some(PlanePath { next_hop: address::t0_mac(plane, self.index), outer_src: srv6.then_some(sid) });
        }
        let route = match srv6 {
            true => {
                let (template, ops) = match topology {
                    Topology::Clos(clos) => clos.ev_template(self.index, peer),
                    Topology::Graph(graph) => graph.ev_template(peer),
                };
                Route::Srv6(EvTemplate::new(template, ops)?)
            }
            false => Route::Plain,
        };
        let (local, remote) = (Ip::V6(address::gid(self.index)), Ip::V6(address::gid(peer)));
        Ok(self.endpoint.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 })?)
    }

    /// The profile of the paths to hosts below the same leaf, or across, and its length.
    fn profile(
        &mut self,
        settings: &MrcSettings,
        topology: &Topology,
        peer: u32,
    ) -> Result<(EvProfileHandle, u32), MrcHostError> {
        let blank = EvEntry::new(Ev(0), PortNum::from_plane(0));
        let ports = topology.host_ports(self.index).min(topology.host_ports(peer));
        let across = topology.leaf_of(self.index) != topology.leaf_of(peer);
        let of = match (topology.scheme().paths(), topology) {
            (PathNames::Entropy, _) => ProfileOf::Ports(ports),
            (_, Topology::Clos(_)) => ProfileOf::Across(across),
            (_, Topology::Graph(graph)) => ProfileOf::Paths(settings.path_evs(graph, self.index, peer)),
        };
        if let Some(profile) = self.profiles.get(&of) {
            return Ok(*profile);
        }
        let planes = usize::from(ports);
        let entries = match (topology.scheme().paths(), topology, &of) {
            (_, _, ProfileOf::Paths(paths)) => {
                paths.iter().map(|&(ev, port)| EvEntry::new(Ev(ev), PortNum::from_plane(port))).collect()
            }
            (PathNames::MicroSids, Topology::Clos(clos), _) => {
                let uplinks = if across { settings.uplinks(clos.uplinks()) } else { 1 };
                let mut entries = vec![blank; planes * usize::from(uplinks)];
                compact_profile(&mut entries, ports, uplinks, PLANE_LSB)?;
                entries
            }
            // The first of three 10-bit fields, from the top.
            (PathNames::UplinkNumbers, Topology::Clos(clos), _) => (0..planes
                * usize::from(settings.uplinks(clos.uplinks())))
                .map(|nth| EvEntry::new(Ev(((nth / planes) as u32) << 22), PortNum::from_plane((nth % planes) as u8)))
                .collect(),
            _ => {
                let mut entries = vec![blank; usize::from(settings.paths.active + settings.paths.backup)];
                auto_profile(&mut entries, ports, 16, self.index.into())?;
                entries
            }
        };
        let profile = (self.endpoint.create_ev_profile(&entries)?, entries.len() as u32);
        self.profiles.insert(of, profile);
        Ok(profile)
    }

    fn bring_up(
        &mut self,
        settings: &MrcSettings,
        [near, far]: [QpHandle; 2],
        peer: mrc_core::PeerHandle,
        profile: EvProfileHandle,
        entries: u32,
    ) -> Result<(), MrcHostError> {
        let psn = Psn::new(1);
        let rtr = RtrAttr {
            path_mtu: settings.mtu,
            mpr_dest: settings.mpr,
            trim_nack: settings.trimming,
            max_wimm_dest: 0,
            ..RtrAttr::software(peer, far.qpn(), psn, profile)
        };
        // Every queue pair that keeps to one path has its own.
        let own = Selector::Pinned(EvIndex(self.rng.below(entries.max(1)) as u16));
        let rts = RtsAttr {
            mpr: settings.mpr,
            retry: settings.retry,
            trimming: if settings.trimming { Trimming::On } else { Trimming::Off },
            paths: settings.paths,
            selector: settings.selector.unwrap_or(own),
            base_rtt_ns: settings.base_rtt_ns,
            target_delay_ns: settings.target_delay_ns,
            max_wimm: 0,
            reorder_pkts_min: settings.reorder.0,
            reorder_factor: settings.reorder.1,
            reorder_delay_ns: settings.reorder_delay_ns,
            // Networks of scenarios reorder by their queues alone, which `reorder` covers.
            reorder_tolerance: 0,
            tail_probe_ns: settings.tail_probe_ns,
            probe_rate_limit_ns: settings.probe_rate_limit_ns,
            keepalive_ns: settings.keepalive_ns,
            ..RtsAttr::software(psn)
        };
        self.endpoint.modify_to_init(near)?;
        self.endpoint.modify_to_rtr(Instant::ZERO, near, &rtr)?;
        self.endpoint.modify_to_rts(Instant::ZERO, near, &rts)?;
        Ok(())
    }

    fn connection_to(&self, peer: u32) -> Option<usize> {
        self.peers.binary_search(&peer).ok()
    }

    /// Queues what the exchange has released.
    fn take_released(&mut self, now: Instant, exchange: &mut Exchange) {
        while let Some(id) = exchange.take_released(now, self.index) {
            let message = *exchange.message(id);
            let Some(at) = self.connection_to(message.dst) else {
                exchange
                    .on_failed(now, id, || format!("host {} has no queue pair to host {}", self.index, message.dst));
                continue;
            };
            let lanes = self.qps;
            let (first, crowded) = self.connections[at].choose(self.shared, lanes as usize);
            self.crowded += u64::from(crowded);
            // Whole packets in each piece, and no empty piece.
            let packets = message.bytes.div_ceil(self.packet.1).div_ceil(lanes);
            let piece = packets * self.packet.1;
            let mut offset = 0;
            for lane in first..first + lanes as usize {
                let len = piece.min(message.bytes - offset);
                if len == 0 {
                    break;
                }
                let next = (id, offset.into(), len);
                let waits = !self.connections[at].lanes[lane].backlog.is_empty();
                if waits || !self.post(now, (at, lane), next, exchange) {
                    self.connections[at].lanes[lane].backlog.push_back(next);
                }
                offset += len;
            }
        }
    }

    /// Posts a piece of a message on a lane; `false` where it has no room.
    fn post(
        &mut self,
        now: Instant,
        (at, nth): (usize, usize),
        (id, offset, len): (u32, u64, u32),
        exchange: &mut Exchange,
    ) -> bool {
        let connection = &mut self.connections[at];
        let lane = &mut connection.lanes[nth];
        if lane.posted >= self.send_queue {
            return false;
        }
        let address = u64::from(id) << OFFSET_BITS | offset;
        let wr = SendWr {
            wr_id: (at as u64) << 44 | (nth as u64) << MESSAGE_BITS | u64::from(id),
            lkey: self.endpoint.key(self.region).map_or(0, |key| key.0),
            local_va: address,
            len,
            remote_va: address,
            rkey: connection.rkey,
            signaled: true,
            ..SendWr::default()
        };
        match self.endpoint.post_send(now, lane.qp, &wr) {
            Ok(()) => lane.posted += 1,
            Err(error) => exchange.on_failed(now, id, || format!("post: {error}")),
        }
        true
    }

    /// Posts what waits on a lane, as far as there is room.
    fn post_waiting(&mut self, now: Instant, (at, nth): (usize, usize), exchange: &mut Exchange) {
        while let Some(&piece) = self.connections[at].lanes[nth].backlog.front()
            && self.post(now, (at, nth), piece, exchange)
        {
            self.connections[at].lanes[nth].backlog.pop_front();
        }
    }

    /// Takes completions and goes on posting.
    fn turn(&mut self, now: Instant, exchange: &mut Exchange) {
        while let Some(done) = self.endpoint.poll_completion(self.cq) {
            let (at, nth) = ((done.wr_id >> 44) as usize, (done.wr_id >> MESSAGE_BITS & 0xffff) as usize);
            let id = (done.wr_id & ((1 << MESSAGE_BITS) - 1)) as u32;
            self.connections[at].lanes[nth].posted -= 1;
            if done.status == Status::Success {
                exchange.on_acked(now, id, done.byte_len);
            } else {
                exchange.on_failed(now, id, || {
                    let qp = done.qp.value();
                    format!("QP {qp:#x}: {} after {} retries", done.status.text(), done.retries)
                });
            }
            self.post_waiting(now, (at, nth), exchange);
        }
    }
}

impl Host for MrcTransport<'_> {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, exchange: &mut Exchange) {
        let (header, report) = packet.split_telemetry();
        let rx = RxMeta { port, wire_len: uncut_len(packet, header), icrc: icrc_of(packet) };
        if let (Some(report), Some(telemetry)) = (&report, &mut self.telemetry)
            && rx.icrc == IcrcCheck::Valid
        {
            telemetry.on_receive(now, (header, rx.wire_len), report, &mut self.endpoint);
        }
        if let Ok(Received::Place(placement)) = self.endpoint.handle_packet(now, rx, header) {
            let tag = &packet.payload;
            let there = (placement.offset >> OFFSET_BITS, placement.offset & OFFSET_MASK);
            if there == (tag.region.into(), tag.offset) && placement.payload.len() == tag.len as usize {
                exchange.on_placed(now, tag.region, tag.len);
            } else {
                exchange.on_misplaced();
            }
        }
        self.turn(now, exchange);
    }

    fn on_timer(&mut self, now: Instant, exchange: &mut Exchange) {
        if self.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.take_released(now, exchange);
        self.turn(now, exchange);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, exchange: &mut Exchange) {
        self.endpoint.set_port(now, port, up);
        self.turn(now, exchange);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        exchange: &mut Exchange,
    ) -> Option<PortNum> {
        let transmit = self.endpoint.poll_transmit(now, free, out.buffer())?;
        out.set_header_len(transmit.header_len);
        out.wire_len = transmit.frame_len() as u32;
        if let Some(payload) = transmit.payload {
            let (message, offset) = ((payload.offset >> OFFSET_BITS) as u32, payload.offset & OFFSET_MASK);
            out.payload = payload_tag(self.index, message, offset, payload.len);
            exchange.on_sent(message, payload.len, transmit.port);
        }
        if let Some(sizes) = self.wire {
            let data = transmit.payload.map(|payload| payload.len + sizes.data_overhead);
            out.wire_len = data.unwrap_or(sizes.control);
        }
        if transmit.payload.is_none()
            && let Some(telemetry) = &mut self.telemetry
        {
            telemetry.on_transmit(transmit.frame_len(), out);
        }
        Some(transmit.port)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn fetches(&self) -> bool {
        self.fetches
    }

    fn upcoming(&self, soon: Soon<'_>) -> Upcoming {
        self.upcoming_of(soon)
    }

    fn fetch(&self, next: &mut Upcoming, world: &Exchange) {
        self.fetch_step(next, world);
    }
}

impl Transport for MrcTransport<'_> {
    fn counters(&self) -> TransportCounters {
        let stats = self.endpoint.stats();
        TransportCounters {
            data: stats.tx_data,
            retransmitted: stats.retransmitted,
            lost_inferred: stats.lost_inferred,
            lost_nack: stats.lost_nack,
            lost_timeout: stats.lost_timeout,
            control: stats.tx_sack + stats.tx_nack + stats.tx_ack + stats.tx_nak,
            probes: stats.tx_probe,
            paths_retired: stats.ev_assumed_bad,
            paths_restored: stats.ev_restored,
            qp_errors: stats.qp_errors,
            path_probes: stats.tx_endpoint_request,
            path_switches: stats.path_switches,
            crowded: self.crowded,
        }
    }

    fn paths(&self) -> PathCounts {
        let mut counts = PathCounts::default();
        for lane in self.connections.iter().flat_map(|connection| &connection.lanes) {
            if let Some(info) = self.endpoint.qp_info(lane.qp) {
                counts.good += u64::from(info.evs.good);
                counts.skip += u64::from(info.evs.skip);
                counts.assumed_bad += u64::from(info.evs.assumed_bad);
            }
        }
        counts
    }

    fn path_table(&self) -> Vec<PathRow> {
        let lanes = self.connections.iter().flat_map(|connection| {
            connection.lanes.iter().enumerate().map(move |(nth, lane)| (connection.peer, nth, lane.qp))
        });
        let rows = |(peer, nth, qp): (u32, usize, QpHandle)| {
            self.endpoint.path_loads(qp).map(move |load| {
                let report = self.telemetry.as_ref().and_then(|telemetry| telemetry.of(qp, load.ev));
                let hops = report.filter(|_| load.telemetry).map(|report| report.hops().collect());
                PathRow { host: self.index, peer, qp: nth as u32, load, hops: hops.unwrap_or_default() }
            })
        };
        lanes.flat_map(rows).collect()
    }

    fn path_state_bytes(&self) -> usize {
        self.path_state_bytes
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        let peer = exchange.message(message).dst;
        let Some(at) = self.connection_to(peer) else {
            return format!("host {} has no queue pair to host {peer}", self.index);
        };
        let lanes = self.connections[at].lanes.iter().filter_map(|lane| {
            let info = self.endpoint.qp_info(lane.qp)?;
            Some(format!(
                "QP {:#x} {:?}, {} packets in flight, {} writes queued, {} retries, EVs {} good {} skip {} bad",
                lane.qp.qpn().value(),
                info.state,
                info.outstanding,
                info.queued,
                info.retries,
                info.evs.good,
                info.evs.skip,
                info.evs.assumed_bad
            ))
        });
        lanes.collect::<Vec<_>>().join("; ")
    }

    fn packet_bytes(&self) -> (u32, u32) {
        self.packet
    }

    fn acknowledgement_bytes(&self) -> u32 {
        self.acknowledgement
    }
}

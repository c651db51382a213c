//! MRC as a transport of messages: the engine, its queue pairs, and the translation between them and an [`Exchange`].
//!
//! Messages are RDMA writes between regions that have addresses and no bytes. The address of a byte says to which message
//! it belongs, so every placement is checked: a byte that arrives in a wrong place or twice is counted.

mod ahead;
mod connect;
mod own;
mod settings;

use std::collections::BTreeMap;

use mrc_core::{
    Access, CqHandle, Endpoint, EvProfileHandle, IcrcCheck, Instant, MAX_PORTS, MemRange, MrHandle, OwnedStorage, Pd,
    PortConfig, PortMask, QpHandle, Received, Rng, RxMeta, SendWr, Status,
};
use mrc_wire::{Ip, PortNum};

use self::connect::{Attributes, Connection, Lane, Piece, ProfileOf, sid_of};
use self::own::Own;
pub use self::settings::{MrcSettings, WireSizes};
use super::mrc::{MrcHostError, icrc_of};
use super::telemetry::Telemetry;
use super::transport::{PathCounts, PathRow, Transport, TransportCounters, payload_tag, uncut_len};
use super::{Soon, Upcoming};
use crate::fabric::{HEADER_MAX, Packet, PathNames, Report, Topology, address};
use crate::host::Host;
use crate::workload::{Exchange, Pair};

/// Bits of an address within a message; the message's number is above them.
const OFFSET_BITS: u32 = 36;
/// Bits of a message's number in a work request, see [`crate::workload::Plan::MAX_MESSAGES`]; lane and peer are above them.
const MESSAGE_BITS: u32 = 28;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const PD: Pd = Pd(1);
/// Queue pairs with no more than this are taken to stay in the caches of a processor.
const CACHED_BYTES: usize = 8 << 20;
/// Where each message has a connection of its own, this part of the queue pairs' memory is in use at once: few are up, and a message
/// touches little of one.
const OWN_PART: usize = 16;

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
    lanes: Vec<Lane>,
    attributes: Attributes,
    /// Where each message has a connection of its own.
    own: Option<Box<Own>>,
    /// The peers alone, in the same order: a search reads few lines of memory.
    peers: Vec<u32>,
    qps: u32,
    send_queue: u32,
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
        let mut known = vec![(0, 0); hosts.len()];
        for pair in pairs {
            for host in [pair.a, pair.b] {
                if let Some((peers, lanes)) = known.get_mut(host as usize) {
                    (*peers, *lanes) = (*peers + 1, *lanes + (pair.connections * settings.qps) as usize);
                }
            }
        }
        for (host, (peers, lanes)) in hosts.iter_mut().zip(known) {
            host.connections.reserve_exact(peers);
            host.lanes.reserve_exact(if host.own.is_some() { 0 } else { lanes });
        }
        for pair in pairs {
            let (a, b) = (pair.a, pair.b);
            let [a, b] = hosts.get_disjoint_mut([a as usize, b as usize]).map_err(|_| MrcHostError::Pair(a, b))?;
            Self::connect(settings, topology, a, b, pair.connections)?;
        }
        let of_qps = |host: &Self| {
            let all = host.endpoint.limits().bytes_per_qp() * host.endpoint.limits().qps;
            if host.own.is_some() { all / OWN_PART } else { all }
        };
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
        // Each draw advances a generator by the constant that numbers hosts here, so all hosts draw from one sequence, each from
        // another place on. Switches that hash mix addresses into it. Where an EV names a path, each host begins elsewhere.
        let mut rng = Rng::new(!seed);
        if topology.scheme().paths() != PathNames::Entropy {
            rng = rng.fork();
        }
        Ok(Self {
            index,
            endpoint,
            cq,
            region,
            profiles: BTreeMap::new(),
            rng,
            connections: Vec::new(),
            lanes: Vec::new(),
            attributes: Attributes::new(settings),
            own: Own::new(settings, index),
            peers: Vec::new(),
            qps: settings.qps,
            send_queue: settings.send_queue as u32,
            crowded: 0,
            wire: settings.wire,
            packet: (settings.wire_bytes(topology, settings.mtu.into()).0, settings.mtu.into()),
            acknowledgement: settings.acknowledgement_bytes(topology),
            telemetry: settings.telemetry.map(|bandwidth| Box::new(Telemetry::new(bandwidth))),
            fetches: false,
            path_state_bytes: settings.selector.map_or(0, |selector| selector.state_bytes(settings.evs())),
        })
    }

    /// Every queue pair there is: the other host, the queue pair's place among those to it, and its handle.
    fn ends(&self) -> Vec<(u32, u32, QpHandle)> {
        if let Some(own) = &self.own {
            return own.ends().filter_map(|qp| Some((self.peer_of(qp)?, 0, qp))).collect();
        }
        let of = |connection: &Connection| {
            let (peer, first) = (connection.peer, connection.first);
            (0..connection.count).map(move |nth| (peer, nth, self.lanes[(first + nth) as usize].qp))
        };
        self.connections.iter().flat_map(of).collect()
    }

    /// Queue pairs that exist now.
    pub fn queue_pairs(&self) -> usize {
        self.endpoint.qps().count()
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
            if self.own.is_some() {
                self.open_or_wait(now, (at, id), exchange);
                continue;
            }
            let first = self.connections[at].take_turn(self.qps);
            for lane in 0..self.qps {
                let (offset, len) = self.piece(message.bytes, lane);
                if len == 0 {
                    break;
                }
                let (place, next) = ((at, first + lane), (id, offset, len));
                let waits = self.lane(place).backlog.as_ref().is_some_and(|backlog| !backlog.is_empty());
                if waits || !self.post(now, place, next, exchange) {
                    self.lane(place).backlog.get_or_insert_default().push_back(next);
                }
            }
        }
    }

    fn lane(&mut self, (at, nth): (usize, u32)) -> &mut Lane {
        &mut self.lanes[(self.connections[at].first + nth) as usize]
    }

    /// First byte and bytes of the piece of a message that one of its queue pairs carries: whole packets.
    fn piece(&self, bytes: u32, lane: u32) -> (u64, u32) {
        let piece = bytes.div_ceil(self.packet.1).div_ceil(self.qps) * self.packet.1;
        let offset = lane * piece;
        (offset.into(), piece.min(bytes.saturating_sub(offset)))
    }

    /// Posts a piece of a message on a lane; `false` where it has no room.
    fn post(&mut self, now: Instant, place: (usize, u32), piece: Piece, exchange: &mut Exchange) -> bool {
        let most = self.send_queue;
        let lane = self.lane(place);
        if lane.posted >= most {
            return false;
        }
        let qp = lane.qp;
        if self.send(now, qp, place, piece, exchange) {
            self.lane(place).posted += 1;
        }
        true
    }

    /// Posts a piece of a message on a queue pair; its completion says `place`. Whether the engine took it: the message has failed
    /// where it did not.
    fn send(
        &mut self,
        now: Instant,
        qp: QpHandle,
        (at, nth): (usize, u32),
        (id, offset, len): Piece,
        exchange: &mut Exchange,
    ) -> bool {
        let address = u64::from(id) << OFFSET_BITS | offset;
        let wr = SendWr {
            wr_id: (at as u64) << 44 | u64::from(nth) << MESSAGE_BITS | u64::from(id),
            lkey: self.endpoint.key(self.region).map_or(0, |key| key.0),
            local_va: address,
            len,
            remote_va: address,
            rkey: self.connections[at].rkey,
            signaled: true,
            ..SendWr::default()
        };
        let posted = self.endpoint.post_send(now, qp, &wr);
        if let Err(error) = posted {
            exchange.on_failed(now, id, || format!("post: {error}"));
        }
        posted.is_ok()
    }

    /// Posts what waits on a lane, as far as there is room.
    fn post_waiting(&mut self, now: Instant, place: (usize, u32), exchange: &mut Exchange) {
        while let Some(&piece) = self.lane(place).backlog.as_ref().and_then(|backlog| backlog.front())
            && self.post(now, place, piece, exchange)
        {
            self.lane(place).backlog.as_mut().and_then(|backlog| backlog.pop_front());
        }
    }

    /// Hands a packet to the engine, and says where its payload went.
    #[inline(always)]
    fn take(
        &mut self,
        now: Instant,
        rx: RxMeta,
        header: &[u8],
        (packet, report): (&Packet, Option<&Report>),
        exchange: &mut Exchange,
    ) {
        if let (Some(report), Some(telemetry)) = (report, &mut self.telemetry)
            && rx.icrc == IcrcCheck::Valid
        {
            telemetry.on_receive(now, (header, rx.wire_len), report, &mut self.endpoint);
        }
        if let Ok(Received::Place(placement)) = self.endpoint.handle_packet(now, rx, header) {
            let tag = &packet.payload;
            let there = (placement.offset >> OFFSET_BITS, placement.offset & OFFSET_MASK);
            if there == (tag.region.into(), tag.offset) && placement.payload.len() == tag.len as usize {
                exchange.on_placed(now, tag.region, tag.len);
                self.on_placed(now, tag.region, exchange);
            } else {
                exchange.on_misplaced();
            }
        }
    }

    /// Takes completions and goes on posting.
    fn turn(&mut self, now: Instant, exchange: &mut Exchange) {
        while let Some(done) = self.endpoint.poll_completion(self.cq) {
            let place = ((done.wr_id >> 44) as usize, (done.wr_id >> MESSAGE_BITS & 0xffff) as u32);
            let id = (done.wr_id & ((1 << MESSAGE_BITS) - 1)) as u32;
            if done.status == Status::Success {
                exchange.on_acked(now, id, done.byte_len);
            } else {
                exchange.on_failed(now, id, || {
                    let qp = done.qp.value();
                    format!("QP {qp:#x}: {} after {} retries", done.status.text(), done.retries)
                });
            }
            if self.own.is_some() {
                self.close_sender(now, id, place.1, exchange);
            } else {
                self.lane(place).posted -= 1;
                self.post_waiting(now, place, exchange);
            }
        }
    }
}

impl Host for MrcTransport<'_> {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, exchange: &mut Exchange) {
        let (header, report) = packet.split_telemetry();
        let rx = RxMeta { port, wire_len: uncut_len(packet, header), icrc: icrc_of(packet) };
        if self.own.is_none() {
            self.take(now, rx, header, (packet, report.as_ref()), exchange);
        } else {
            let mut local = [0; HEADER_MAX];
            let local = &mut local[..header.len()];
            local.copy_from_slice(header);
            if self.readdress(now, local, packet, exchange) {
                self.take(now, rx, local, (packet, report.as_ref()), exchange);
            }
        }
        self.turn(now, exchange);
    }

    fn on_timer(&mut self, now: Instant, exchange: &mut Exchange) {
        if self.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.close_lingering(now);
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
        let engine = self.endpoint.next_timeout();
        match self.own.as_ref().and_then(|own| own.next_end()) {
            Some(end) => Some(engine.map_or(end, |engine| engine.min(end))),
            None => engine,
        }
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
        for info in self.ends().into_iter().filter_map(|(.., qp)| self.endpoint.qp_info(qp)) {
            counts.good += u64::from(info.evs.good);
            counts.skip += u64::from(info.evs.skip);
            counts.assumed_bad += u64::from(info.evs.assumed_bad);
        }
        counts
    }

    fn path_table(&self) -> Vec<PathRow> {
        let rows = |(peer, nth, qp): (u32, u32, QpHandle)| {
            self.endpoint.path_loads(qp).map(move |load| {
                let report = self.telemetry.as_ref().and_then(|telemetry| telemetry.of(qp, load.ev));
                let hops = report.filter(|_| load.telemetry).map(|report| report.hops().collect());
                PathRow { host: self.index, peer, qp: nth, load, hops: hops.unwrap_or_default() }
            })
        };
        self.ends().into_iter().flat_map(rows).collect()
    }

    fn path_state_bytes(&self) -> usize {
        self.path_state_bytes
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        let peer = exchange.message(message).dst;
        let Some(at) = self.connection_to(peer) else {
            return format!("host {} has no queue pair to host {peer}", self.index);
        };
        let ends = self.ends().into_iter().filter(|&(to, ..)| to == peer).filter_map(|(.., qp)| {
            let info = self.endpoint.qp_info(qp)?;
            Some(format!(
                "QP {:#x} {:?}, {} packets in flight, {} writes queued, {} retries, EVs {} good {} skip {} bad",
                qp.qpn().value(),
                info.state,
                info.outstanding,
                info.queued,
                info.retries,
                info.evs.good,
                info.evs.skip,
                info.evs.assumed_bad
            ))
        });
        let ends = ends.collect::<Vec<_>>().join("; ");
        let none = || format!("host {} has no queue pair to host {peer} now", self.index);
        if ends.is_empty() && at < self.connections.len() { none() } else { ends }
    }

    fn packet_bytes(&self) -> (u32, u32) {
        self.packet
    }

    fn acknowledgement_bytes(&self) -> u32 {
        self.acknowledgement
    }
}

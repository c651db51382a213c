//! RoCEv2 Reliable Connection as a transport of messages, to compare with: one path per queue pair by ECMP, go-back-N or
//! selective repeat, DCQCN or line rate, on a fabric with priority flow control or without. A model of the protocol with
//! real headers, not of any vendor's NIC.
//!
//! Acknowledgements and CNPs travel in the control class, which PFC leaves alone. With a selector a queue pair chooses among
//! source ports ([`RocePaths`]); probes go with the data.

mod dcqcn;
mod paths;
mod queue_pair;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use mrc_core::{Instant, PortMask, Rng};
use mrc_wire::{FrameTemplate, PortNum};

pub use self::dcqcn::DcqcnConfig;
pub use self::paths::RocePaths;
pub use self::queue_pair::Recovery;
pub use self::wire::roce_line;

use self::dcqcn::Dcqcn;
use self::paths::Paths;
use self::queue_pair::{Outgoing, Receiver, Sender};
use self::wire::{Header, Kind, Reth};
use super::transport::{PathCounts, Transport, TransportCounters, payload_tag};
use crate::fabric::{LinkId, LinkSpec, Packet, Topology};
use crate::host::Host;
use crate::workload::{Connections, Exchange, Pair};

const PSN_MASK: u64 = 0xFF_FFFF;
/// Ports that are not well known.
const FIRST_SPORT: u32 = 49_152;

fn any_sport(rng: &mut Rng) -> u16 {
    (FIRST_SPORT + rng.below(65_536 - FIRST_SPORT)) as u16
}

/// Everything about the RoCE hosts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceSettings {
    /// Queue pairs per connection; a message is cut into as many pieces.
    pub qps: u32,
    /// How messages share connections.
    pub connections: Connections,
    /// Payload of a full packet, in bytes.
    pub mtu: u32,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// Packets a queue pair may have in flight; `None`: as many as PSNs allow.
    pub window_packets: Option<u32>,
    /// Retransmission timer, in nanoseconds.
    pub rto_ns: u64,
    /// The timer when at most [`RoceSettings::FEW`] packets are in flight (IRN's lower one).
    pub rto_low_ns: u64,
    /// Timeouts in a row after which a queue pair fails.
    pub retries: u32,
    /// Acknowledge at least every so many packets; the last packet of a message always.
    pub ack_every: u32,
    /// Packets that may be ahead of the first missing one before a receiver reports a hole.
    pub reorder_packets: u32,
    /// A receiver that reports a hole notifies the sender as of a mark.
    pub hole_notifies: bool,
    /// Congestion control, at each port for its own rate; `None`: line rate.
    pub dcqcn: Option<DcqcnConfig>,
    /// How queue pairs choose paths; `None`: each keeps to one.
    pub paths: Option<RocePaths>,
}

impl RoceSettings {
    /// See [`RoceSettings::rto_low_ns`].
    pub const FEW: u64 = 3;

    /// Bytes on the wire of a packet of `payload` bytes in the middle of a message, and of an acknowledgement.
    pub const fn wire_bytes(payload: u32) -> (u32, u32) {
        (payload + wire::DATA_OVERHEAD, wire::ACK_BYTES)
    }

    /// Memory of one queue pair, in bytes. Its queues grow with what is in flight, and go with it.
    pub const fn bytes_per_qp() -> usize {
        size_of::<QueuePair>()
    }

    /// Memory of a host for each other one that it talks to, by `ports`, in bytes.
    pub const fn bytes_per_peer(ports: u8) -> usize {
        size_of::<Peer>() + ports as usize * size_of::<FrameTemplate>()
    }
}

/// One end of a connection.
struct QueuePair {
    peer: u32,
    /// Its number at the peer.
    remote: u32,
    home: u8,
    /// Ports that both ends have, from 0.
    shared_ports: u8,
    /// Entropy for the switches' hash.
    sport: u16,
    /// The first of the templates of its peer, one for each port.
    template: u32,
    sender: Sender,
    receiver: Receiver,
    dcqcn: Dcqcn,
    paths: Option<Box<Paths>>,
    /// Not before then, by congestion control.
    paced_until: Instant,
    rto_at: Instant,
    /// Its earliest entry among the wakes.
    alarm: Instant,
    /// On one of the ready lists.
    listed: bool,
    failed: bool,
}

/// The connections to another host.
struct Peer {
    host: u32,
    /// Their first queue pair.
    first: u32,
    count: u32,
    /// The connection whose turn it is.
    next: u32,
}

/// A probe that waits for its port, with the source port that it tests.
struct Probe {
    qp: u32,
    sport: u16,
    id: u32,
}

/// An answer that waits for its port.
struct Answer {
    qp: u32,
    psn: u64,
    kind: Kind,
}

/// A host with RoCEv2 queue pairs.
pub struct RoceTransport {
    index: u32,
    settings: RoceSettings,
    /// By port: its rate, in bit/s, and congestion control at that rate.
    lines: Vec<(u64, Option<DcqcnConfig>)>,
    qps: Vec<QueuePair>,
    /// Of each peer one for each port, shared by all queue pairs to it.
    templates: Vec<FrameTemplate>,
    /// By peer, sorted.
    connections: Vec<Peer>,
    /// Draws the entropy of connections that begin anew.
    rng: Rng,
    up: PortMask,
    paused: PortMask,
    /// Queue pairs with something to send, by port, each in its turn.
    ready: Vec<VecDeque<u32>>,
    answers: Vec<VecDeque<Answer>>,
    probes: Vec<VecDeque<Probe>>,
    /// When to look at a queue pair again; entries may be out of date.
    wakes: BinaryHeap<Reverse<(Instant, u32)>>,
    counters: TransportCounters,
}

impl RoceTransport {
    /// All hosts of a run, connected for `pairs`; `links`, in order, differ from their tier.
    pub fn build(
        settings: &RoceSettings,
        (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
        pairs: &[Pair],
        seed: u64,
    ) -> Vec<Self> {
        let host = |index| Self::new(settings, (topology, links), index);
        let mut hosts: Vec<Self> = (0..topology.hosts()).map(host).collect();
        let mut rng = Rng::new(seed ^ 0x526F_4345);
        let mut first_ports = Rng::new(seed ^ 0x706F_7274);
        for &Pair { a, b, connections } in pairs {
            let first = [hosts[a as usize].qps.len() as u32, hosts[b as usize].qps.len() as u32];
            for (from, to, first) in [(a, b, first[0]), (b, a, first[1])] {
                let host = &mut hosts[from as usize];
                host.connections.push(Peer { host: to, first, count: connections, next: 0 });
                host.templates.extend((0..topology.host_ports(from)).map(|plane| wire::template(plane, from, to)));
            }
            // As a bond spreads them: else all pairs with one queue pair would share one port. A multiple of all numbers of ports.
            let first_port = first_ports.below(840);
            for nth in 0..settings.qps * connections {
                for (from, to, remote) in [(a, b, first[1] + nth), (b, a, first[0] + nth)] {
                    let sport = any_sport(&mut rng);
                    hosts[from as usize].add_qp(topology, to, remote, first_port + nth, sport);
                }
            }
        }
        hosts.iter_mut().for_each(|host| host.connections.sort_unstable_by_key(|peer| peer.host));
        hosts
    }

    fn new(settings: &RoceSettings, (topology, links): (&Topology, &[(LinkId, LinkSpec)]), index: u32) -> Self {
        let ports = usize::from(topology.host_ports(index));
        let line = |port| {
            let link = topology.host_link_id(port, index);
            let changed = links.binary_search_by_key(&link, |(link, _)| *link).ok().map(|at| links[at].1);
            let rate_bps = changed.unwrap_or_else(|| topology.link_spec(link)).rate_bps;
            (rate_bps, settings.dcqcn.map(|dcqcn| dcqcn.at(rate_bps)))
        };
        Self {
            index,
            settings: *settings,
            lines: (0..topology.host_ports(index)).map(line).collect(),
            qps: Vec::new(),
            templates: Vec::new(),
            connections: Vec::new(),
            rng: Rng::new(u64::from(index) ^ 0x73_706f_7274),
            up: PortMask::ALL,
            paused: PortMask::NONE,
            ready: vec![VecDeque::new(); ports],
            answers: (0..ports).map(|_| VecDeque::new()).collect(),
            probes: (0..ports).map(|_| VecDeque::new()).collect(),
            wakes: BinaryHeap::new(),
            counters: TransportCounters::default(),
        }
    }

    /// A queue pair to `remote` of a peer; `nth` says which port is its own, the ports being counted round and round.
    fn add_qp(&mut self, topology: &Topology, peer: u32, remote: u32, nth: u32, sport: u16) {
        let settings = &self.settings;
        let ports = usize::from(topology.host_ports(self.index));
        // A port that the peer has none for leads nowhere.
        let shared = ports.min(topology.host_ports(peer).into());
        let home = nth as usize % shared;
        self.qps.push(QueuePair {
            peer,
            remote,
            home: home as u8,
            shared_ports: shared as u8,
            sport,
            // Those of the peer that was added last.
            template: (self.templates.len() - ports) as u32,
            sender: Sender::new(settings.recovery, settings.mtu, settings.window_packets),
            receiver: Receiver::new(
                settings.recovery,
                settings.ack_every,
                settings.reorder_packets,
                settings.dcqcn.map(|dcqcn| dcqcn.cnp_interval_ns),
            )
            .hole_notifies(settings.hole_notifies),
            dcqcn: Dcqcn::new(self.lines[home].0),
            paths: settings.paths.map(|paths| Box::new(Paths::new(&paths, &mut self.rng))),
            paced_until: Instant::ZERO,
            rto_at: Instant::FAR,
            alarm: Instant::FAR,
            listed: false,
            failed: false,
        });
    }

    /// The port a queue pair uses: its own, or the next one that is up (the ports are one bond).
    fn port_of(&self, qp: u32) -> Option<u8> {
        let QueuePair { home, shared_ports: ports, .. } = self.qps[qp as usize];
        (0..ports).map(|step| (home + step) % ports).find(|&port| self.up.contains(PortNum::from_plane(port)))
    }

    /// Puts a queue pair on the list of its port when it has something to send, or notes when it may.
    fn list(&mut self, now: Instant, qp: u32) {
        let slot = &self.qps[qp as usize];
        if slot.listed || !slot.sender.is_ready() {
            return;
        }
        if slot.paced_until > now {
            self.wake(slot.paced_until, qp);
            return;
        }
        match self.port_of(qp) {
            Some(port) => {
                self.ready[usize::from(port)].push_back(qp);
                self.qps[qp as usize].listed = true;
            }
            // What leaves through no port is not answered either: its tries count.
            None if slot.rto_at == Instant::FAR => self.arm(now, qp),
            None => {}
        }
    }

    fn wake(&mut self, at: Instant, qp: u32) {
        let slot = &mut self.qps[qp as usize];
        if at < slot.alarm {
            slot.alarm = at;
            self.wakes.push(Reverse((at, qp)));
        }
    }

    fn answer(&mut self, qp: u32, psn: u64, kind: Kind) {
        if let Some(port) = self.port_of(qp) {
            self.answers[usize::from(port)].push_back(Answer { qp, psn, kind });
        }
    }

    /// Begins the retransmission timer anew, or ends it where nothing is in flight and a port leads on.
    fn arm(&mut self, now: Instant, qp: u32) {
        let sender = &self.qps[qp as usize].sender;
        let in_flight = sender.in_flight();
        let waits_for_port = in_flight == 0 && sender.is_ready() && self.port_of(qp).is_none();
        let slot = &mut self.qps[qp as usize];
        if in_flight == 0 && !waits_for_port {
            slot.rto_at = Instant::FAR;
            return;
        }
        let rto = if in_flight <= RoceSettings::FEW { self.settings.rto_low_ns } else { self.settings.rto_ns };
        slot.rto_at = now.after(rto);
        let at = slot.rto_at;
        self.wake(at, qp);
    }

    /// Queues what the exchange has released, in pieces of whole packets.
    fn take_released(&mut self, now: Instant, exchange: &mut Exchange) {
        while let Some(id) = exchange.take_released(now, self.index) {
            let message = *exchange.message(id);
            let Ok(at) = self.connections.binary_search_by_key(&message.dst, |peer| peer.host) else {
                let why = || format!("host {} has no queue pair to host {}", self.index, message.dst);
                exchange.on_failed(now, id, why);
                continue;
            };
            let first = self.choose(at);
            let piece =
                message.bytes.div_ceil(self.settings.mtu).div_ceil(self.settings.qps).max(1) * self.settings.mtu;
            let mut offset = 0;
            for qp in first..first + self.settings.qps {
                let len = piece.min(message.bytes - offset);
                if len == 0 {
                    break;
                }
                if self.qps[qp as usize].failed {
                    exchange.on_failed(now, id, || format!("queue pair {qp} of host {} has failed", self.index));
                    break;
                }
                let slot = &mut self.qps[qp as usize];
                slot.sender.push(id, offset.into(), len);
                if let Some(paths) = &mut slot.paths {
                    paths.on_busy();
                }
                offset += len;
                self.list(now, qp);
            }
        }
    }

    /// The first queue pair of the connection that takes the next message to a peer.
    fn choose(&mut self, at: usize) -> u32 {
        let qps = self.settings.qps;
        let Peer { first, count, next, .. } = &mut self.connections[at];
        let (first, count) = (*first, *count);
        if self.settings.connections != Connections::PerMessage {
            *next = (*next + 1) % count;
            return first + (*next + count - 1) % count * qps;
        }
        let of = |nth: u32| first + nth * qps..first + (nth + 1) * qps;
        let idle = |qp: u32| {
            let QueuePair { sender, failed, .. } = &self.qps[qp as usize];
            !failed && sender.in_flight() == 0 && !sender.is_ready()
        };
        let found = (0..count).find(|&nth| of(nth).all(idle));
        let Some(nth) = found else {
            self.counters.crowded += 1;
            *next = (*next + 1) % count;
            return first + *next * qps;
        };
        // As a connection that begins with the message: at line rate, on a path of its own.
        for qp in of(nth) {
            let slot = &mut self.qps[qp as usize];
            slot.sport = any_sport(&mut self.rng);
            if let Some(paths) = &mut slot.paths {
                paths.begin(&mut self.rng);
            }
            slot.dcqcn = Dcqcn::new(self.lines[usize::from(slot.home)].0);
            slot.paced_until = Instant::ZERO;
        }
        of(nth).start
    }

    fn on_timeout(&mut self, now: Instant, qp: u32, exchange: &mut Exchange) {
        let slot = &mut self.qps[qp as usize];
        if slot.sender.retries >= self.settings.retries {
            slot.failed = true;
            slot.rto_at = Instant::FAR;
            self.counters.qp_errors += 1;
            let retries = slot.sender.retries;
            for segment in slot.sender.drain() {
                exchange
                    .on_failed(now, segment.message, || format!("queue pair {qp}: {retries} retries without answer"));
            }
            return;
        }
        slot.sender.on_timeout();
        if let Some(paths) = &mut slot.paths {
            paths.on_timeout(now, &mut self.rng);
        }
        self.arm(now, qp);
        self.list(now, qp);
    }

    fn on_data(&mut self, now: Instant, header: &Header, marked: bool, packet: &Packet, exchange: &mut Exchange) {
        let Kind::Data { ack_req, .. } = header.kind else { return };
        let slot = &mut self.qps[header.qp as usize];
        let taken = slot.receiver.on_data(now, header.psn, ack_req, marked);
        let expected = slot.receiver.expected();
        if taken.place {
            exchange.on_placed(now, packet.payload.region, packet.payload.len);
        }
        if taken.cnp {
            self.answer(header.qp, expected, Kind::Cnp);
        }
        if let Some((hole, seen)) = taken.ack {
            let seen = seen.map(|psn| (psn & PSN_MASK) as u32);
            let marked = self.settings.paths.is_some() && taken.marked;
            self.answer(header.qp, expected, Kind::Ack { hole, seen, marked });
        }
    }

    fn on_ack(&mut self, now: Instant, header: &Header, exchange: &mut Exchange) {
        let Kind::Ack { hole, seen, marked } = header.kind else { return };
        let slot = &mut self.qps[header.qp as usize];
        let before = slot.sender.in_flight();
        let Some(lost) = slot.sender.on_ack(header.psn, hole, seen) else { return };
        if let Some(paths) = &mut slot.paths {
            let seen = seen.map(|seen| slot.sender.unwrapped(seen));
            paths.on_ack(now, slot.sender.una(), seen, marked, &mut self.rng);
        }
        while let Some(done) = slot.sender.take_done() {
            exchange.on_acked(now, done.message, done.bytes);
        }
        slot.sender.release();
        if slot.sender.in_flight() != before || lost {
            self.arm(now, header.qp);
        }
        self.list(now, header.qp);
    }

    /// After news of the paths of a queue pair: probes that are wanted now wait for their port, and a timer for the next.
    fn look_at_paths(&mut self, now: Instant, qp: u32) {
        let Some(port) = self.port_of(qp) else { return };
        let Some(paths) = &mut self.qps[qp as usize].paths else { return };
        paths.expire(now, &mut self.rng);
        while let Some((sport, id)) = paths.poll_probe(now) {
            self.probes[usize::from(port)].push_back(Probe { qp, sport, id });
        }
        let deadline = paths.deadline(now);
        self.wake(deadline, qp);
    }

    fn send_probe(&mut self, port: u8, out: &mut Packet) -> bool {
        let Some(Probe { qp, sport, id }) = self.probes[usize::from(port)].pop_front() else { return false };
        let slot = &self.qps[qp as usize];
        let header = Header { qp: slot.remote, psn: id, kind: Kind::Probe };
        let bytes = self.settings.paths.map_or(0, |paths| paths.probe_bytes);
        wire::write(out, &self.templates[slot.template as usize + usize::from(port)], sport, &header, bytes);
        self.counters.probes += 1;
        true
    }

    fn send_answer(&mut self, port: u8, out: &mut Packet) -> bool {
        let Some(answer) = self.answers[usize::from(port)].pop_front() else { return false };
        let slot = &self.qps[answer.qp as usize];
        let header = Header { qp: slot.remote, psn: (answer.psn & PSN_MASK) as u32, kind: answer.kind };
        let template = &self.templates[slot.template as usize + usize::from(port)];
        wire::write(out, template, slot.sport, &header, 0);
        self.counters.control += 1;
        true
    }

    fn send_data(&mut self, now: Instant, port: u8, out: &mut Packet) -> bool {
        while let Some(qp) = self.ready[usize::from(port)].pop_front() {
            let slot = &mut self.qps[qp as usize];
            slot.listed = false;
            if !slot.sender.is_ready() {
                continue;
            }
            let mut path = None;
            if let Some(paths) = &mut slot.paths {
                path = paths.choose(now, slot.sender.is_again(), &mut self.rng);
                if path.is_none() {
                    let at = paths.retry_at(now);
                    self.wake(at, qp);
                    continue;
                }
            }
            let none_in_flight = slot.sender.in_flight() == 0;
            let Some(data) = slot.sender.take() else { continue };
            let Outgoing { psn, message, offset, len, write, last, again, timer } = data;
            let reth = write.map(|len| Reth { va: offset, len });
            // A full window asks too, and the end of a piece, or a coalescing receiver would let them stand.
            let waits = slot.paths.as_ref().is_some_and(|paths| paths.waits_behind_next());
            let ack_req = last || waits || !slot.sender.is_ready();
            let header =
                Header { qp: slot.remote, psn: (psn & PSN_MASK) as u32, kind: Kind::Data { reth, last, ack_req } };
            let template = &self.templates[slot.template as usize + usize::from(port)];
            wire::write(out, template, path.map_or(slot.sport, |(sport, _)| sport), &header, len);
            if let (Some(paths), Some((_, path))) = (&mut slot.paths, path) {
                let moved = paths.on_send(now, psn, path);
                self.counters.path_switches += u64::from(moved);
                if moved && self.settings.paths.is_some_and(|paths| paths.rate_per_path) {
                    slot.dcqcn = Dcqcn::new(self.lines[usize::from(slot.home)].0);
                    slot.paced_until = now;
                }
            }
            out.payload = payload_tag(self.index, message, offset, len);
            if again {
                self.counters.retransmitted += 1;
                self.counters.lost_timeout += u64::from(timer);
                self.counters.lost_inferred += u64::from(!timer);
            } else {
                self.counters.data += 1;
            }
            if let Some(cfg) = &self.lines[usize::from(slot.home)].1 {
                slot.dcqcn.advance(now, cfg);
                slot.dcqcn.on_send(out.wire_len, cfg);
                let ns = u128::from(out.wire_len) * 8_000_000_000 / u128::from(slot.dcqcn.rate());
                slot.paced_until = slot.paced_until.max(now).after(ns as u64);
            }
            if none_in_flight || slot.rto_at == Instant::FAR {
                self.arm(now, qp);
            }
            self.list(now, qp);
            return true;
        }
        false
    }
}

impl Host for RoceTransport {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, _: PortNum, packet: &Packet, exchange: &mut Exchange) {
        if packet.is_corrupt() || packet.is_trimmed() {
            return;
        }
        let Some((header, marked)) = wire::read(packet) else { return };
        if header.qp as usize >= self.qps.len() {
            return;
        }
        match header.kind {
            Kind::Data { .. } => self.on_data(now, &header, marked, packet, exchange),
            Kind::Ack { .. } => self.on_ack(now, &header, exchange),
            Kind::Probe => self.answer(header.qp, header.psn.into(), Kind::ProbeAnswer { marked }),
            Kind::ProbeAnswer { marked } => {
                if let Some(paths) = &mut self.qps[header.qp as usize].paths {
                    paths.on_probe_answer(now, header.psn, marked, &mut self.rng);
                }
                self.list(now, header.qp);
            }
            Kind::Cnp => {
                let slot = &mut self.qps[header.qp as usize];
                if let Some(cfg) = &self.lines[usize::from(slot.home)].1 {
                    slot.dcqcn.on_cnp(now, cfg);
                }
            }
        }
        self.look_at_paths(now, header.qp);
        self.take_released(now, exchange);
    }

    fn on_timer(&mut self, now: Instant, exchange: &mut Exchange) {
        while let Some(&Reverse((at, qp))) = self.wakes.peek()
            && at <= now
        {
            self.wakes.pop();
            let slot = &mut self.qps[qp as usize];
            if slot.alarm != at {
                continue;
            }
            slot.alarm = Instant::FAR;
            if slot.rto_at <= now {
                self.on_timeout(now, qp, exchange);
            }
            self.look_at_paths(now, qp);
            self.list(now, qp);
            // A deadline that only moved later is armed now that the earlier one has passed.
            self.wake(self.qps[qp as usize].rto_at, qp);
        }
        self.take_released(now, exchange);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, _: &mut Exchange) {
        self.up = if up { self.up.with(port) } else { self.up.without(port) };
        // Everything moves to where it belongs now; what finds no port waits for one.
        for from in 0..self.ready.len() {
            for qp in core::mem::take(&mut self.ready[from]) {
                self.qps[qp as usize].listed = false;
            }
        }
        (0..self.qps.len() as u32).for_each(|qp| self.list(now, qp));
        if !up {
            self.answers[usize::from(port.plane())].clear();
            self.probes[usize::from(port.plane())].clear();
        }
    }

    fn on_pause(&mut self, _: Instant, port: PortNum, paused: bool, _: &mut Exchange) {
        self.paused = if paused { self.paused.with(port) } else { self.paused.without(port) };
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        exchange: &mut Exchange,
    ) -> Option<PortNum> {
        for plane in 0..self.ready.len() as u8 {
            let port = PortNum::from_plane(plane);
            if !free.contains(port) || !self.up.contains(port) {
                continue;
            }
            let paused = self.paused.contains(port);
            if self.send_answer(plane, out) {
                return Some(port);
            }
            if !paused && self.send_probe(plane, out) {
                return Some(port);
            }
            if !paused && self.send_data(now, plane, out) {
                exchange.on_sent(out.payload.region, out.payload.len, port);
                return Some(port);
            }
        }
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }
}

impl Transport for RoceTransport {
    fn counters(&self) -> TransportCounters {
        self.counters
    }

    fn paths(&self) -> PathCounts {
        let mut sum = PathCounts::default();
        for counts in self.qps.iter().filter_map(|qp| Some(qp.paths.as_ref()?.counts())) {
            sum.good += counts.good;
            sum.skip += counts.skip;
            sum.assumed_bad += counts.assumed_bad;
        }
        sum
    }

    fn path_state_bytes(&self) -> usize {
        self.settings.paths.map_or(0, |paths| paths.state_bytes())
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        let peer = exchange.message(message).dst;
        let qps = self.qps.iter().enumerate().filter(|(_, qp)| qp.peer == peer);
        let lines = qps.map(|(n, qp)| {
            let (in_flight, rate) = (qp.sender.in_flight(), qp.dcqcn.rate() / 1_000_000);
            let state = if qp.failed {
                "failed"
            } else if qp.sender.is_ready() {
                "ready"
            } else {
                "waiting"
            };
            format!("QP {n} {state}, {in_flight} packets in flight, {} retries, {rate} Mb/s", qp.sender.retries)
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    fn acknowledgement_bytes(&self) -> u32 {
        wire::ACK_BYTES
    }

    fn packet_bytes(&self) -> (u32, u32) {
        (RoceSettings::wire_bytes(self.settings.mtu).0, self.settings.mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Clos;

    #[test]
    fn queue_pairs_to_one_peer_share_its_templates() {
        let settings = RoceSettings {
            qps: 16,
            connections: Connections::Count(3),
            mtu: 4096,
            recovery: Recovery::GoBackN,
            window_packets: None,
            rto_ns: 1,
            rto_low_ns: 1,
            retries: 1,
            ack_every: 1,
            reorder_packets: 0,
            hole_notifies: false,
            dcqcn: None,
            paths: None,
        };
        let clos = Clos { planes: 2, hosts: 4, ..Clos::default() };
        let pairs = [Pair { a: 0, b: 1, connections: 3 }, Pair { a: 0, b: 2, connections: 3 }];
        let hosts = RoceTransport::build(&settings, (&clos.into(), &[]), &pairs, 1);
        assert_eq!((hosts[0].qps.len(), hosts[0].templates.len()), (96, 4), "one for each port and peer");
        assert_eq!(hosts[0].qps.iter().map(|qp| qp.template).collect::<Vec<_>>(), [[0; 48], [2; 48]].concat());
    }
}

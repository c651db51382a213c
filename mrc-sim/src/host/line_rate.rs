//! `line-rate`: every message leaves as fast as the links carry it, in datagrams that are acknowledged one by one and go again
//! after a while. No congestion control and no window: what a fabric does to traffic that does not adapt, and the plainest
//! transport to begin a new one from.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use mrc_core::{Instant, PortMask, Rng};
use mrc_wire::PortNum;

use super::datagram::{Datagram, next_port};
use super::registry::{HostSite, TransportInfo};
use super::transport::{Transport, TransportCounters};
use crate::fabric::{Graph, Packet, Param, Topology};
use crate::host::Host;
use crate::workload::Exchange;

const MTU: Param = Param {
    name: "mtu",
    about: "Payload of a full datagram, in bytes.",
    default: 4096.0,
    range: (64.0, 9000.0),
    whole: true,
};
const RTO_US: Param = Param {
    name: "rto_us",
    about: "A datagram without acknowledgement goes again after so many microseconds.",
    default: 320.0,
    range: (1.0, 1e6),
    whole: false,
};
const RETRIES: Param = Param {
    name: "retries",
    about: "A message fails when one of its datagrams went again so often.",
    default: 100.0,
    range: (1.0, 1e6),
    whole: true,
};
const SPRAY: Param = Param {
    name: "spray",
    about: "1: every datagram has an entropy of its own; 0: a message has one.",
    default: 1.0,
    range: (0.0, 1.0),
    whole: true,
};

pub(super) static INFO: TransportInfo = TransportInfo {
    name: "line-rate",
    about: "Every message at the rate of the host's links, without congestion control; what is lost goes again by a timer.",
    params: &[MTU, RTO_US, RETRIES, SPRAY],
    check: None,
    longest_packet: |values| values[0] as u32 + Datagram::HEADERS,
    patience_ns: |values| ((values[2] + 1.0) * values[1] * 1e3) as u64,
    build: |site, values| Box::new(LineRate::new(site, values)),
};

/// A datagram that was sent, or shall be.
#[derive(Clone, Copy)]
struct Piece {
    datagram: Datagram,
    tries: u32,
    due: Instant,
}

impl Piece {
    fn key(&self) -> (u32, u64) {
        (self.datagram.message, self.datagram.offset)
    }
}

/// A message of which not all was sent.
struct Sending {
    message: u32,
    next: u32,
    entropy: u16,
}

/// A host.
struct LineRate {
    host: u32,
    mtu: u32,
    rto_ns: u64,
    retries: u32,
    spray: bool,
    rng: Rng,
    up: PortMask,
    last: Option<PortNum>,
    /// Where hosts may have different numbers of ports: two of them talk by those that both have.
    graph: Option<Arc<Graph>>,
    /// Messages take turns, a datagram each.
    sending: VecDeque<Sending>,
    /// Sent and not acknowledged: message and offset.
    open: BTreeSet<(u32, u64)>,
    /// These in the order in which they left, and some that are open no more.
    in_flight: VecDeque<Piece>,
    /// Those that go again, likewise.
    again: VecDeque<Piece>,
    answers: VecDeque<Datagram>,
    /// Arrived pieces of messages that are not complete.
    arrived: BTreeSet<(u32, u64)>,
    counters: TransportCounters,
}

impl LineRate {
    fn new(site: &HostSite<'_>, values: &[f64]) -> Self {
        Self {
            host: site.host,
            mtu: values[0] as u32,
            rto_ns: (values[1] * 1e3) as u64,
            retries: values[2] as u32,
            spray: values[3] != 0.0,
            rng: Rng::new(site.seed ^ u64::from(site.host) ^ 0x6c69_6e65),
            up: site.topology.port_mask(site.host),
            last: None,
            graph: match site.topology {
                Topology::Clos(_) => None,
                Topology::Graph(graph) => Some(Arc::clone(graph)),
            },
            sending: VecDeque::new(),
            open: BTreeSet::new(),
            in_flight: VecDeque::new(),
            again: VecDeque::new(),
            answers: VecDeque::new(),
            arrived: BTreeSet::new(),
            counters: TransportCounters::default(),
        }
    }

    fn entropy(&mut self) -> u16 {
        self.rng.below(1 << 16) as u16
    }

    /// The port of `free` that is next for a datagram to another host.
    fn port_to(&self, to: u32, free: PortMask) -> Option<PortNum> {
        let both = self.graph.as_ref().map_or(PortMask::ALL, |graph| PortMask::first(graph.host_ports(to)));
        next_port(free.and(both), self.last)
    }

    /// The next answer, and its port.
    fn answer(&mut self, free: PortMask) -> Option<(Datagram, PortNum)> {
        let (at, port) = first(&self.answers, |answer| self.port_to(answer.to, free))?;
        Some((self.answers.remove(at)?, port))
    }

    /// The next piece that was not sent yet, and its port.
    fn next_piece(&mut self, free: PortMask, world: &Exchange) -> Option<(Piece, PortNum)> {
        let to = |sending: &Sending| world.message(sending.message).dst;
        let (at, port) = first(&self.sending, |sending| self.port_to(to(sending), free))?;
        let mut sending = self.sending.remove(at)?;
        let message = world.message(sending.message);
        let bytes = self.mtu.min(message.bytes - sending.next);
        let entropy = if self.spray { self.entropy() } else { sending.entropy };
        let offset = u64::from(sending.next);
        sending.next += bytes;
        let (from, to, nth) = (self.host, message.dst, sending.message);
        if sending.next < message.bytes {
            self.sending.push_back(sending);
        }
        let datagram = Datagram { from, to, message: nth, offset, bytes, ack: false, entropy, marked: false };
        Some((Piece { datagram, tries: 0, due: Instant::FAR }, port))
    }

    /// What shall go again, on another path if paths change, and its port.
    fn piece_again(&mut self, free: PortMask) -> Option<(Piece, PortNum)> {
        while self.again.pop_front_if(|piece| !self.open.contains(&piece.key())).is_some() {}
        let goes = |piece: &Piece| self.port_to(piece.datagram.to, free).filter(|_| self.open.contains(&piece.key()));
        let (at, port) = first(&self.again, goes)?;
        let mut piece = self.again.remove(at)?;
        if self.spray {
            piece.datagram.entropy = self.entropy();
        }
        Some((piece, port))
    }

    fn on_data(&mut self, now: Instant, data: &Datagram, world: &mut Exchange) {
        // Once per byte: what was acknowledged in vain comes again.
        if world.missing(data.message) > 0 && self.arrived.insert((data.message, data.offset)) {
            world.on_placed(now, data.message, data.bytes);
            if world.missing(data.message) == 0 {
                forget(&mut self.arrived, data.message);
            }
        }
        self.answers.push_back(data.answer());
    }

    fn on_ack(&mut self, now: Instant, ack: &Datagram, world: &mut Exchange) {
        if self.open.remove(&(ack.message, ack.offset)) {
            world.on_acked(now, ack.message, ack.bytes);
        }
        while self.in_flight.front().is_some_and(|piece| !self.open.contains(&piece.key())) {
            self.in_flight.pop_front();
        }
    }

    /// A piece goes again as soon as a port is free. Without a port that carries it waits for its timer as one that was lost.
    fn retry(&mut self, now: Instant, mut piece: Piece) {
        if self.port_to(piece.datagram.to, self.up).is_some() {
            self.again.push_back(piece);
        } else {
            piece.due = now.after(self.rto_ns);
            self.in_flight.push_back(piece);
        }
    }

    fn give_up(&mut self, now: Instant, piece: &Piece, world: &mut Exchange) {
        let message = piece.datagram.message;
        world.on_failed(now, message, || format!("no acknowledgement after {} tries", piece.tries + 1));
        self.sending.retain(|sending| sending.message != message);
        forget(&mut self.open, message);
        self.counters.qp_errors += 1;
    }
}

/// The first of a queue for which there is a port: its place, and the port.
fn first<T>(queue: &VecDeque<T>, port: impl Fn(&T) -> Option<PortNum>) -> Option<(usize, PortNum)> {
    queue.iter().enumerate().find_map(|(at, one)| Some((at, port(one)?)))
}

/// Takes the pieces of a message out of a set.
fn forget(pieces: &mut BTreeSet<(u32, u64)>, message: u32) {
    while let Some(&piece) = pieces.range((message, 0)..=(message, u64::MAX)).next() {
        pieces.remove(&piece);
    }
}

impl Host for LineRate {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, _: PortNum, packet: &Packet, world: &mut Exchange) {
        match Datagram::read(packet) {
            Some(ack) if ack.ack => self.on_ack(now, &ack, world),
            Some(data) => self.on_data(now, &data, world),
            None => {}
        }
    }

    fn on_timer(&mut self, now: Instant, world: &mut Exchange) {
        while let Some(message) = world.take_released(now, self.host) {
            let entropy = self.entropy();
            self.sending.push_back(Sending { message, next: 0, entropy });
        }
        while self.in_flight.front().is_some_and(|piece| piece.due <= now) {
            let Some(mut piece) = self.in_flight.pop_front() else { break };
            if !self.open.contains(&piece.key()) {
                continue;
            }
            if piece.tries >= self.retries {
                self.give_up(now, &piece, world);
            } else {
                piece.tries += 1;
                self.counters.lost_timeout += 1;
                self.retry(now, piece);
            }
        }
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, _: &mut Exchange) {
        self.up = if up { self.up.with(port) } else { self.up.without(port) };
        for piece in std::mem::take(&mut self.again) {
            self.retry(now, piece);
        }
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        world: &mut Exchange,
    ) -> Option<PortNum> {
        let free = free.and(self.up);
        if free.is_empty() {
            return None;
        }
        if let Some((answer, port)) = self.answer(free) {
            self.counters.control += 1;
            answer.write(port, out);
            self.last = Some(port);
            return Some(port);
        }
        let (mut piece, port) = self.piece_again(free).or_else(|| self.next_piece(free, world))?;
        piece.due = now.after(self.rto_ns);
        *(if piece.tries > 0 { &mut self.counters.retransmitted } else { &mut self.counters.data }) += 1;
        piece.datagram.write(port, out);
        world.on_sent(piece.datagram.message, piece.datagram.bytes, port);
        self.open.insert(piece.key());
        self.in_flight.push_back(piece);
        self.last = Some(port);
        Some(port)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.in_flight.front().map(|piece| piece.due)
    }
}

impl Transport for LineRate {
    fn counters(&self) -> TransportCounters {
        self.counters
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        let (waits, open) = (exchange.unacked(message), self.open.len());
        format!("{waits} B not acknowledged; {open} datagrams of its host are under way")
    }

    fn packet_bytes(&self) -> (u32, u32) {
        (self.mtu + Datagram::HEADERS, self.mtu)
    }

    fn acknowledgement_bytes(&self) -> u32 {
        Datagram::HEADERS
    }
}

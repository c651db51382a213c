//! Hosts without a transport: bare load at line rate and echoes, to test the fabric and to measure the simulator itself.

use std::collections::VecDeque;

use mrc_core::Instant;
use mrc_core::PortMask;
use mrc_wire::PortNum;

use crate::fabric::switch;
use crate::fabric::{Packet, PayloadTag};
use crate::host::Host;

/// Ethernet and IPv6 header, then the flow's number, its low half first so that it stands where a UDP source port does, and
/// the sequence number, 4 bytes each.
const HEADER_LEN: usize = switch::HEAD + 8;

/// Packets back to back on one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// When the first packet may go.
    pub start: Instant,
    /// The port it leaves by.
    pub port: PortNum,
    /// Outer destination: the whole path.
    pub dst: [u8; 16],
    /// Traffic class byte: DSCP and ECN.
    pub traffic_class: u8,
    /// Bytes of every frame on the wire.
    pub wire_len: u32,
    /// Packets to send.
    pub count: u32,
}

/// A packet that reached a [`Generator`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its last bit came in.
    pub at: Instant,
    /// The port it came in by.
    pub port: PortNum,
    /// Index of the flow at its sender.
    pub flow: u32,
    /// Its number within the flow.
    pub seq: u32,
    /// The outer header as it arrived: Ethernet and IPv6.
    pub head: [u8; switch::HEAD],
}

/// Sends flows, counts what it receives and, if asked, answers it.
#[derive(Default)]
pub struct Generator {
    flows: Vec<Flow>,
    /// Packets sent, by flow.
    sent: Vec<u32>,
    /// Flow to try first.
    turn: usize,
    /// Start times, and ends of pauses, not reached yet; latest first.
    starts: Vec<Instant>,
    now: Instant,
    echo_to: Option<[u8; 16]>,
    echoes: VecDeque<(PortNum, Packet)>,
    /// Flows that send nothing for a while: which, from when, until when.
    pauses: Vec<(usize, Instant, Instant)>,
    /// Flows that look like one to a hash.
    one_flow: bool,
    keep: bool,
    received: u64,
    arrivals: Vec<Arrival>,
    carrier: Vec<(Instant, PortNum, bool)>,
}

impl Generator {
    /// A host that sends `flows`; one without flows only receives.
    pub fn new(flows: Vec<Flow>) -> Self {
        let mut starts: Vec<Instant> = flows.iter().map(|flow| flow.start).collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        Self { sent: vec![0; flows.len()], flows, starts, ..Self::default() }
    }

    /// Sends every packet it receives back, to `dst`, by the port it came in by.
    pub fn echoing(mut self, dst: [u8; 16]) -> Self {
        self.echo_to = Some(dst);
        self
    }

    /// Gives all flows one flow number, so that switches take them for one flow.
    pub fn one_flow(mut self) -> Self {
        self.one_flow = true;
        self
    }

    /// Lets a flow, by its place among the flows, send nothing from one instant until another: a gap such as ends a flowlet.
    pub fn pausing(mut self, flow: usize, from: Instant, until: Instant) -> Self {
        self.pauses.push((flow, from, until));
        self.starts.push(until);
        self.starts.sort_unstable_by(|a, b| b.cmp(a));
        self
    }

    fn is_paused(&self, flow: usize, now: Instant) -> bool {
        self.pauses.iter().any(|&(paused, from, until)| paused == flow && (from..until).contains(&now))
    }

    /// Keeps a record of every packet received, see [`Generator::arrivals`].
    pub fn recording(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Packets received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Packets sent, all flows together, without echoes.
    pub fn sent(&self) -> u64 {
        self.sent.iter().map(|&count| u64::from(count)).sum()
    }

    /// The packets received so far, if recording.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Changes of this host's carriers so far.
    pub fn carrier_changes(&self) -> &[(Instant, PortNum, bool)] {
        &self.carrier
    }

    fn write(flow: &Flow, index: u32, seq: u32, out: &mut Packet) {
        let frame: &mut [u8; HEADER_LEN] = out.buffer().first_chunk_mut().expect("a packet holds more than 62 B");
        *frame = [0; HEADER_LEN];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60 | flow.traffic_class >> 4;
        frame[15] = flow.traffic_class << 4;
        frame[18..20].copy_from_slice(&(flow.wire_len.saturating_sub(54) as u16).to_be_bytes());
        frame[20] = 59; // no next header
        frame[21] = 64;
        frame[38..54].copy_from_slice(&flow.dst);
        frame[54..58].copy_from_slice(&index.rotate_left(16).to_be_bytes());
        frame[58..62].copy_from_slice(&seq.to_be_bytes());
        out.set_header_len(HEADER_LEN);
        out.wire_len = flow.wire_len;
        out.payload = PayloadTag::default();
    }
}

impl Host for Generator {
    type World = ();

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, (): &mut ()) {
        self.now = now;
        self.received += 1;
        let Some(frame) = packet.header().first_chunk::<HEADER_LEN>() else {
            return;
        };
        let word = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if self.keep {
            let head = *frame.first_chunk().expect("HEADER_LEN is longer than HEAD");
            self.arrivals.push(Arrival { at: now, port, flow: word(54).rotate_left(16), seq: word(58), head });
        }
        if let Some(dst) = self.echo_to {
            let mut echo = packet.clone();
            echo.header_mut()[38..54].copy_from_slice(&dst);
            self.echoes.push_back((port, echo));
        }
    }

    fn on_timer(&mut self, now: Instant, (): &mut ()) {
        self.now = now;
        while self.starts.last().is_some_and(|&start| start <= now) {
            self.starts.pop();
        }
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, (): &mut ()) {
        self.now = now;
        self.carrier.push((now, port, up));
    }

    fn poll_transmit(&mut self, now: Instant, free: PortMask, out: &mut Packet, (): &mut ()) -> Option<PortNum> {
        self.now = now;
        if let Some(at) = self.echoes.iter().position(|(port, _)| free.contains(*port)) {
            let (port, echo) = self.echoes.remove(at)?;
            *out = echo;
            return Some(port);
        }
        for _ in 0..self.flows.len() {
            let index = self.turn;
            self.turn = if index + 1 == self.flows.len() { 0 } else { index + 1 };
            if self.is_paused(index, now) {
                continue;
            }
            let (flow, sent) = (&self.flows[index], &mut self.sent[index]);
            if flow.start <= now && *sent < flow.count && free.contains(flow.port) {
                Self::write(flow, if self.one_flow { 0 } else { index as u32 }, *sent, out);
                *sent += 1;
                return Some(flow.port);
            }
        }
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.starts.last().copied()
    }
}

//! A transport that sends one packet at a time.

use std::collections::{BTreeMap, VecDeque};

use mrc_core::{Instant, PortMask};
use mrc_sim::workload::Exchange;
use mrc_sim::{Datagram, Host, HostSite, Packet, Param, Transport, TransportCounters, TransportInfo};
use mrc_wire::PortNum;

/// Registered in `TRANSPORTS` it is `kind = "stop-and-wait"` of a scenario, with `params.rto_us` beside it.
pub(super) static STOP_AND_WAIT: TransportInfo = TransportInfo {
    name: "stop-and-wait",
    about: "One packet at a time; the next one leaves when it is acknowledged.",
    params: &[Param {
        name: "rto_us",
        about: "Time until it goes again, in microseconds.",
        default: 100.0,
        range: (1.0, 1e6),
        whole: false,
    }],
    check: None,
    longest_packet: |_| 1024 + Datagram::HEADERS,
    patience_ns: |values| (values[0] * 1e3) as u64,
    build: |site, values| Box::new(StopAndWait::new(site, (values[0] * 1e3) as u64)),
};

struct StopAndWait {
    host: u32,
    rto_ns: u64,
    /// The messages of this host, the first one under way.
    messages: VecDeque<u32>,
    /// Bytes of that one which are acknowledged, and when its packet goes (again).
    offset: u64,
    due: Instant,
    /// Whether it left already, so that it is a retransmission when it leaves.
    again: bool,
    answers: VecDeque<Datagram>,
    /// Bytes that have arrived, by message.
    arrived: BTreeMap<u32, u64>,
    counters: TransportCounters,
}

impl Host for StopAndWait {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, _: PortNum, packet: &Packet, world: &mut Exchange) {
        let Some(data) = Datagram::read(packet) else { return };
        if !data.ack {
            let arrived = self.arrived.entry(data.message).or_default();
            if *arrived == data.offset {
                *arrived += u64::from(data.bytes);
                world.on_placed(now, data.message, data.bytes);
            }
            self.answers.push_back(data.answer());
        } else if (self.messages.front(), self.offset) == (Some(&data.message), data.offset) {
            world.on_acked(now, data.message, data.bytes);
            (self.offset, self.due, self.again) = (self.offset + u64::from(data.bytes), now, false);
            if world.unacked(data.message) == 0 {
                self.messages.pop_front();
                self.offset = 0;
            }
        }
    }

    fn on_timer(&mut self, now: Instant, world: &mut Exchange) {
        while let Some(message) = world.take_released(now, self.host) {
            self.messages.push_back(message);
        }
    }

    fn on_port(&mut self, _: Instant, _: PortNum, _: bool, _: &mut Exchange) {}

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        world: &mut Exchange,
    ) -> Option<PortNum> {
        let port = free.lowest()?;
        if let Some(answer) = self.answers.pop_front() {
            answer.write(port, out);
            return Some(port);
        }
        let &message = self.messages.front().filter(|_| now >= self.due)?;
        let (to, bytes) = (world.message(message).dst, world.unacked(message).min(1024));
        let (from, offset) = (self.host, self.offset);
        Datagram { from, to, message, offset, bytes, ack: false, entropy: 50_000, marked: false }.write(port, out);
        world.on_sent(message, bytes, port);
        *(if self.again { &mut self.counters.retransmitted } else { &mut self.counters.data }) += 1;
        (self.due, self.again) = (now.after(self.rto_ns), true);
        Some(port)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.messages.front().map(|_| self.due)
    }
}

impl Transport for StopAndWait {
    fn counters(&self) -> TransportCounters {
        self.counters
    }

    fn diagnose(&self, _: u32, _: &Exchange) -> String {
        format!("{} messages wait; the first one is at byte {}", self.messages.len(), self.offset)
    }

    fn packet_bytes(&self) -> (u32, u32) {
        (1024 + Datagram::HEADERS, 1024)
    }
}

impl StopAndWait {
    fn new(site: &HostSite<'_>, rto_ns: u64) -> Self {
        let (messages, answers, arrived) = (VecDeque::new(), VecDeque::new(), BTreeMap::new());
        let counters = TransportCounters::default();
        Self {
            host: site.host,
            rto_ns,
            messages,
            offset: 0,
            due: Instant::ZERO,
            again: false,
            answers,
            arrived,
            counters,
        }
    }
}

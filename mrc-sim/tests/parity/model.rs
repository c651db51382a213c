//! A permutation over single paths once more, by a model that shares nothing with the simulator or the engine: a packet
//! simulation of the fabric of the parity preset with NSCC in floating point, as UET publishes it and its public
//! simulators read it. Time is in picoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use mrc_core::Rng;

/// Hosts below a leaf, and as many spines.
pub(crate) const WIDTH: usize = 16;
const LEAVES: usize = 8;
const HOSTS: usize = WIDTH * LEAVES;
const US: u64 = 1_000_000;
/// In a message.
pub(crate) const PACKETS: u32 = 490;
const FULL: u32 = 4_150;
const LAST: u32 = 2_000_000 - 489 * 4_086 + 64;
const HEADER: u32 = 64;
/// 29 packets, with the one that is being sent.
const QUEUE: u32 = 120_350;
const ECN: (f64, f64) = (24_900.0, 99_600.0);
const BASE_RTT: f64 = 9.348;
const TARGET: f64 = 7.011;
/// Bytes per microsecond.
const RATE: f64 = 12_500.0;
const MTU: f64 = FULL as f64;
const PAYLOAD: f64 = 4_086.0;
const SCALE: f64 = RATE * BASE_RTT / 150_000.0;

/// A message of 2 MB: source, destination, and the spine that it keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Sender; each host sends one message.
    pub(crate) from: usize,
    /// Receiver, below another leaf.
    pub(crate) to: usize,
    /// Its path.
    pub(crate) spine: usize,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Microseconds from the start to the acknowledgement of the last byte, by sender.
    pub(crate) fct_us: Vec<f64>,
    /// Packets sent again.
    pub(crate) retransmitted: u32,
}

fn serialisation(bytes: u32) -> u64 {
    u64::from(bytes) * 80
}

fn size(seq: u32) -> u32 {
    if seq == PACKETS - 1 { LAST } else { FULL }
}

fn us(time: u64) -> f64 {
    time as f64 / US as f64
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data { asks: bool },
    Trimmed,
    Nack,
    Ack { all_below: u32, received: u64, echo: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    kind: Kind,
    flow: usize,
    seq: u32,
    bytes: u32,
    again: bool,
    marked: bool,
    hop: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A switch port has sent the packet at the head of data (`true`) or control.
    Sent(usize, bool),
    /// A host can send again.
    Free(usize),
    Arrives(Packet),
}

#[derive(Default)]
struct Port {
    data: VecDeque<Packet>,
    data_bytes: u32,
    control: VecDeque<Packet>,
    /// What is being sent: data or control.
    busy: Option<bool>,
}

/// The sender of a message.
struct Sender {
    cwnd: f64,
    max_wnd: f64,
    in_flight: f64,
    base_rtt: f64,
    avg_delay: f64,
    increase: f64,
    fast_count: f64,
    fast: bool,
    achieved: f64,
    received: f64,
    ignored: f64,
    to_ignore: f64,
    trimmed: bool,
    epoch_end: f64,
    adjusted: f64,
    decreased: f64,
    reported: u64,
    next: u32,
    sent: BTreeMap<u32, (u64, u32)>,
    lost: BTreeSet<u32>,
    done: Option<u64>,
}

impl Sender {
    fn new() -> Self {
        let max_wnd = 1.5 * RATE * BASE_RTT;
        Self {
            cwnd: max_wnd,
            max_wnd,
            in_flight: 0.0,
            base_rtt: BASE_RTT,
            avg_delay: 0.0,
            increase: 0.0,
            fast_count: 0.0,
            fast: false,
            achieved: 0.0,
            received: 0.0,
            ignored: 0.0,
            to_ignore: 0.0,
            trimmed: false,
            epoch_end: 0.0,
            adjusted: 0.0,
            decreased: 0.0,
            reported: 0,
            next: 0,
            sent: BTreeMap::new(),
            lost: BTreeSet::new(),
            done: None,
        }
    }

    fn bound(&mut self) {
        self.cwnd = self.cwnd.min(self.max_wnd).max(MTU);
    }

    fn learn_base_rtt(&mut self, rtt: f64) {
        if rtt < self.base_rtt {
            self.base_rtt = rtt;
            self.max_wnd = 1.5 * RATE * rtt;
        }
    }

    fn average(&mut self, delay: f64) {
        self.avg_delay += 0.0125 * (delay - self.avg_delay);
    }

    fn quick_adapt(&mut self, now: f64, loss: bool, marked: bool, delay: f64) -> bool {
        let mut handled = false;
        if self.ignored < self.to_ignore && marked {
            handled = true;
        } else if now > self.epoch_end {
            let called_for = self.trimmed || loss || delay > 4.0 * TARGET;
            if self.epoch_end > 0.0 && called_for && self.achieved < self.max_wnd / 8.0 {
                self.cwnd = self.achieved.max(MTU);
                (self.to_ignore, self.ignored) = (self.in_flight, 0.0);
                self.trimmed = false;
                handled = true;
            }
            self.achieved = 0.0;
            self.epoch_end = now + self.base_rtt + TARGET;
        }
        if handled {
            (self.increase, self.received) = (0.0, 0.0);
        }
        handled
    }

    /// `bytes` more arrived; `rtt` if it is known for certain.
    fn on_ack(&mut self, now: f64, bytes: f64, marked: bool, rtt: Option<f64>) {
        self.in_flight -= bytes;
        for count in [&mut self.achieved, &mut self.received, &mut self.ignored] {
            *count += bytes;
        }
        let delay = match rtt {
            Some(rtt) => {
                self.learn_base_rtt(rtt);
                let delay = rtt - self.base_rtt;
                self.average(if !marked && delay > TARGET { 0.25 * self.base_rtt } else { delay });
                delay
            }
            None => self.avg_delay,
        };
        if self.quick_adapt(now, false, marked, delay) {
            return;
        }
        match (marked, delay >= TARGET) {
            (false, true) => self.increase += 5.0 * PAYLOAD * SCALE * bytes,
            (false, false) => self.proportional_increase(bytes, delay),
            (true, true) => self.decrease(now),
            (true, false) => {}
        }
        self.bound();
        if self.received > 8.0 * MTU || now - self.adjusted > BASE_RTT {
            self.cwnd += self.increase / self.cwnd;
            if now - self.adjusted >= BASE_RTT {
                self.cwnd += 0.15 * PAYLOAD * SCALE;
                self.adjusted = now;
            }
            (self.increase, self.received) = (0.0, 0.0);
        }
        self.bound();
    }

    fn proportional_increase(&mut self, bytes: f64, delay: f64) {
        if delay < 1.0 {
            self.fast_count += bytes;
            if self.fast_count > self.cwnd || self.fast {
                self.cwnd += 0.25 * SCALE * bytes;
                self.fast = true;
                return;
            }
        } else {
            self.fast_count = 0.0;
        }
        self.fast = false;
        self.increase += 4.0 * PAYLOAD * SCALE / 12.0 * bytes * (TARGET - delay);
    }

    fn decrease(&mut self, now: f64) {
        (self.fast, self.fast_count) = (false, 0.0);
        if self.avg_delay > TARGET && now - self.decreased > self.base_rtt {
            self.cwnd *= (1.0 - 0.8 * (self.avg_delay - TARGET) / self.avg_delay).max(0.5);
            self.decreased = now;
        }
    }

    fn on_nack(&mut self, now: f64, bytes: f64, rtt: f64) {
        self.learn_base_rtt(rtt);
        self.ignored += bytes;
        self.average(BASE_RTT);
        self.trimmed = true;
        if !self.quick_adapt(now, true, true, 0.0) {
            self.cwnd -= bytes;
            self.bound();
        }
        self.in_flight -= bytes;
    }

    /// The next packet that the window lets go: the oldest lost one, or a new one.
    fn next_packet(&mut self, now: u64, flow: usize) -> Option<Packet> {
        let lost = self.lost.first().copied();
        let seq = lost.or_else(|| (self.next < PACKETS).then_some(self.next))?;
        let bytes = size(seq);
        if self.in_flight + f64::from(bytes) > self.cwnd {
            return None;
        }
        self.in_flight += f64::from(bytes);
        match lost {
            Some(_) => _ = self.lost.remove(&seq),
            None => self.next += 1,
        }
        let (at, times) = self.sent.entry(seq).or_default();
        (*at, *times) = (now, *times + 1);
        let asks = lost.is_some() || self.next == PACKETS || self.in_flight + f64::from(bytes) >= self.cwnd;
        Some(Packet { kind: Kind::Data { asks }, flow, seq, bytes, again: *times > 1, marked: false, hop: 0 })
    }
}

#[derive(Default)]
struct Receiver {
    all_below: u32,
    beyond: BTreeSet<u32>,
    received: u64,
    unreported: u32,
    asked: bool,
}

struct Model<'a> {
    flows: &'a [Flow],
    /// Spines of the acknowledgements.
    back: Vec<usize>,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    ports: Vec<Port>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Control packets that wait in a host.
    control: Vec<VecDeque<Packet>>,
    sending: Vec<bool>,
    retransmitted: u32,
}

/// Runs `flows`, one from each host and in its order; `seed` draws marks, victims of trimming and ways back.
pub(crate) fn run(flows: &[Flow], seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let mut model = Model {
        flows,
        back: flows.iter().map(|_| rng.below(WIDTH as u32) as usize).collect(),
        rng,
        now: 0,
        events: BinaryHeap::new(),
        scheduled: 0,
        ports: (0..3 * HOSTS).map(|_| Port::default()).collect(),
        senders: flows.iter().map(|_| Sender::new()).collect(),
        receivers: flows.iter().map(|_| Receiver::default()).collect(),
        control: vec![VecDeque::new(); HOSTS],
        sending: vec![false; HOSTS],
        retransmitted: 0,
    };
    (0..HOSTS).for_each(|host| model.send(host));
    while let Some(Reverse((at, _, event))) = model.events.pop() {
        model.now = at;
        match event {
            Event::Sent(port, data) => model.sent(port, data),
            Event::Free(host) => {
                model.sending[host] = false;
                model.send(host);
            }
            Event::Arrives(packet) => model.arrives(packet),
        }
    }
    let done = |sender: &Sender| us(sender.done.expect("nothing is lost for good"));
    Outcome { fct_us: model.senders.iter().map(done).collect(), retransmitted: model.retransmitted }
}

impl Model<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// The switch port where `packet` is queued next; `None`: it has arrived.
    fn port(&self, packet: &Packet) -> Option<usize> {
        let flow = &self.flows[packet.flow];
        let (from, to, spine) = match packet.kind {
            Kind::Data { .. } | Kind::Trimmed => (flow.from, flow.to, flow.spine),
            _ => (flow.to, flow.from, self.back[packet.flow]),
        };
        match packet.hop {
            0 => Some(from / WIDTH * WIDTH + spine),
            1 => Some(HOSTS + spine * LEAVES + to / WIDTH),
            2 => Some(2 * HOSTS + to),
            _ => None,
        }
    }

    /// Sends from a host if it is free: control first.
    fn send(&mut self, host: usize) {
        if self.sending[host] {
            return;
        }
        let control = self.control[host].pop_front();
        let Some(packet) = control.or_else(|| self.senders[host].next_packet(self.now, host)) else { return };
        self.retransmitted += u32::from(packet.again && matches!(packet.kind, Kind::Data { .. }));
        self.sending[host] = true;
        let sent = self.now + serialisation(packet.bytes);
        self.at(sent, Event::Free(host));
        self.at(sent + US, Event::Arrives(packet));
    }

    /// A port has sent a packet; data is marked by what it leaves behind.
    fn sent(&mut self, index: usize, data: bool) {
        let port = &mut self.ports[index];
        let queue = if data { &mut port.data } else { &mut port.control };
        let mut packet = queue.pop_front().expect("it was being sent");
        port.busy = None;
        if data {
            port.data_bytes -= packet.bytes;
            let share = (f64::from(port.data_bytes) - ECN.0) / (ECN.1 - ECN.0);
            packet.marked |= share > 0.0 && f64::from(self.rng.below(1 << 24)) < share * f64::from(1 << 24);
        }
        packet.hop += 1;
        self.at(self.now + US, Event::Arrives(packet));
        self.serve(index);
    }

    fn serve(&mut self, index: usize) {
        let port = &mut self.ports[index];
        let head =
            port.control.front().map(|packet| (packet, false)).or(port.data.front().map(|packet| (packet, true)));
        if let (None, Some((packet, data))) = (port.busy, head) {
            let time = self.now + serialisation(packet.bytes);
            port.busy = Some(data);
            self.at(time, Event::Sent(index, data));
        }
    }

    fn arrives(&mut self, packet: Packet) {
        let Some(index) = self.port(&packet) else { return self.delivered(packet) };
        let port = &mut self.ports[index];
        if !matches!(packet.kind, Kind::Data { .. }) {
            port.control.push_back(packet);
            return self.serve(index);
        }
        let cut = |packet: Packet| Packet { kind: Kind::Trimmed, bytes: HEADER, ..packet };
        let full = port.data_bytes + packet.bytes > QUEUE;
        if full {
            // By a fair coin the last of those that wait, if it is not being sent, makes room.
            let waits = port.data.len() > usize::from(port.busy == Some(true));
            if self.rng.below(2) == 0 || !waits {
                port.control.push_back(cut(packet));
                return self.serve(index);
            }
            let victim = port.data.pop_back().expect("one waits");
            port.data_bytes -= victim.bytes;
            port.control.push_back(cut(victim));
        }
        port.data_bytes += packet.bytes;
        port.data.push_back(packet);
        self.serve(index);
    }

    fn delivered(&mut self, packet: Packet) {
        let now = us(self.now);
        match packet.kind {
            Kind::Data { asks } => self.receive(packet, asks),
            Kind::Trimmed => self.answer(packet, Kind::Nack),
            Kind::Nack => {
                let sender = &mut self.senders[packet.flow];
                let rtt = now - us(sender.sent[&packet.seq].0);
                sender.on_nack(now, f64::from(size(packet.seq)), rtt);
                sender.lost.insert(packet.seq);
                self.send(packet.flow);
            }
            Kind::Ack { all_below, received, echo } => {
                let sender = &mut self.senders[packet.flow];
                let (at, times) = sender.sent[&packet.seq];
                let certain = matches!((times, packet.again), (1, false) | (2, true));
                let newly = received.saturating_sub(sender.reported);
                sender.reported += newly;
                sender.on_ack(now, newly as f64, echo, certain.then(|| now - us(at)));
                if all_below == PACKETS {
                    sender.done.get_or_insert(self.now);
                }
                self.send(packet.flow);
            }
        }
    }

    fn receive(&mut self, packet: Packet, asks: bool) {
        let receiver = &mut self.receivers[packet.flow];
        let first = receiver.received == 0;
        receiver.received += u64::from(packet.bytes);
        receiver.unreported += packet.bytes;
        receiver.asked |= asks;
        receiver.beyond.insert(packet.seq);
        while receiver.beyond.remove(&receiver.all_below) {
            receiver.all_below += 1;
        }
        let complete = receiver.asked && receiver.beyond.is_empty();
        if asks || complete || first || packet.marked || receiver.unreported >= 16_384 {
            receiver.unreported = 0;
            receiver.asked &= !complete;
            let (all_below, received) = (receiver.all_below, receiver.received);
            self.answer(packet, Kind::Ack { all_below, received, echo: packet.marked });
        }
    }

    fn answer(&mut self, packet: Packet, kind: Kind) {
        let host = self.flows[packet.flow].to;
        self.control[host].push_back(Packet { kind, bytes: HEADER, hop: 0, marked: false, ..packet });
        self.send(host);
    }
}

/// The last finisher's and the mean completion time if all links were shared by max-min fairness at any time, in
/// microseconds: a fluid without queues, windows or acknowledgements.
pub(crate) fn fluid(flows: &[Flow]) -> (f64, f64) {
    let links = |flow: &Flow| {
        [flow.from / WIDTH * WIDTH + flow.spine, HOSTS + flow.spine * LEAVES + flow.to / WIDTH, 2 * HOSTS + flow.from]
    };
    let mut left: Vec<(usize, f64)> =
        (0..flows.len()).map(|flow| (flow, f64::from((PACKETS - 1) * FULL + LAST))).collect();
    let (mut now, mut sum) = (0.0, 0.0);
    while !left.is_empty() {
        let mut rates = vec![None; flows.len()];
        let mut room = vec![RATE; 3 * HOSTS];
        while left.iter().any(|&(flow, _)| rates[flow].is_none()) {
            let mut users = vec![0; 3 * HOSTS];
            let open = left.iter().filter(|&&(flow, _)| rates[flow].is_none());
            open.clone().for_each(|&(flow, _)| links(&flows[flow]).iter().for_each(|&link| users[link] += 1));
            let used = (0..3 * HOSTS).filter(|&link| users[link] > 0);
            let share = |link: &usize| room[*link] / f64::from(users[*link]);
            let tightest = used.min_by(|a, b| share(a).total_cmp(&share(b))).expect("some flow is open");
            let rate = share(&tightest);
            let settled: Vec<usize> =
                open.map(|&(flow, _)| flow).filter(|&flow| links(&flows[flow]).contains(&tightest)).collect();
            for flow in settled {
                rates[flow] = Some(rate);
                links(&flows[flow]).iter().for_each(|&link| room[link] -= rate);
            }
        }
        let rate = |flow: usize| rates[flow].unwrap_or(RATE);
        let step = left.iter().map(|&(flow, bytes)| bytes / rate(flow)).fold(f64::INFINITY, f64::min);
        now += step;
        left.iter_mut().for_each(|(flow, bytes)| *bytes -= rate(*flow) * step);
        left.retain(|&(_, bytes)| {
            bytes > 1.0 || {
                // The unloaded way there and back, without the serialisation at the sender.
                sum += now + BASE_RTT - serialisation(FULL) as f64 / US as f64;
                false
            }
        });
    }
    (now + BASE_RTT - serialisation(FULL) as f64 / US as f64, sum / flows.len() as f64)
}

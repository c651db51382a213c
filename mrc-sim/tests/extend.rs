//! The examples of `docs/extend.md`, which quotes this file: switch schemes, a transport, a workload.

// scheme: begin
use mrc_sim::scheme::{ByUplink, UplinkChoice, ip};
use mrc_sim::{Packet, Param, PathNames, PortId, Scheme, SchemeInfo, SwitchCtx};

/// Registered in `SCHEMES` it is `forwarding = "spread"` of a scenario, with `scheme.after` beside it.
static SPREAD: SchemeInfo = SchemeInfo {
    name: "spread",
    about: "A hash of the flow as long as its uplink is nearly empty; the next one when it is not.",
    paths: PathNames::Entropy,
    params: &[Param {
        name: "after",
        about: "Queue that moves a packet, in bytes.",
        default: 8000.0,
        range: (0.0, 1e9),
    }],
    check: None,
    build: |site, values| Box::new(ByUplink(Spread { salt: site.salt, after: values[0] as u32 })),
};

struct Spread {
    salt: u64,
    after: u32,
}

impl UplinkChoice for Spread {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        let home = ip::mix(ip::flow(packet) ^ self.salt) as usize % uplinks.len();
        let port = uplinks[home];
        if ctx.queued_bytes(port) <= self.after { port } else { uplinks[(home + 1) % uplinks.len()] }
    }
}
// scheme: end

// whole: begin
use mrc_core::Instant;
use mrc_sim::{NoForward, SwitchScheme, Verdict, Way};

/// A whole scheme: IP forwarding in which every switch counts hops in the packet's scratch area, tells the time, and drops
/// what has crossed too many.
struct Counting {
    most: u8,
    ticks: u32,
}

impl SwitchScheme for Counting {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let host = ip::next_hop(packet)?;
        packet.scratch[0] += 1;
        if packet.scratch[0] > self.most {
            return Err(NoForward::HopLimit);
        }
        if self.ticks == 0 {
            self.ticks = 1;
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
        match ctx.way(host).ok_or(NoForward::NoRoute)? {
            Way::Down(port) => Ok(Verdict::To(port)),
            Way::Up => Ok(Verdict::To(*ctx.uplinks().first().ok_or(NoForward::NoRoute)?)),
        }
    }

    fn on_timer(&mut self, ctx: &mut SwitchCtx<'_>, timer: u32) {
        assert_eq!(timer, 7);
        self.ticks += 1;
        if self.ticks < 5 {
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
    }
}
// whole: end

static COUNTING: SchemeInfo = SchemeInfo {
    name: "counting",
    about: "Counts hops.",
    paths: PathNames::Entropy,
    params: &[Param { name: "most", about: "Hops.", default: 3.0, range: (0.0, 255.0) }],
    check: None,
    build: |_, values| Box::new(Counting { most: values[0] as u8, ticks: 0 }),
};

// test: begin
use mrc_sim::scheme::named;
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, Sim, address};
use mrc_wire::PortNum;

/// Host 0 sends `flows` flows to host 5 of another leaf; returns the simulation, and packets by spine.
fn load(scheme: Scheme, flows: usize) -> (Sim<Generator>, Vec<u64>) {
    let clos = Clos { planes: 1, t0: 2, t1: 4, hosts: 8, scheme, ..Clos::default() };
    let flow = Flow {
        start: Instant::ZERO,
        port: PortNum::from_plane(0),
        dst: address::gid(5),
        traffic_class: 0,
        wire_len: 1000,
        count: 100,
    };
    let sending = vec![flow; flows];
    let mut sim =
        Sim::new(clos, 1, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
    assert!(sim.run_to_quiet(Instant::from_nanos(100_000_000)));
    let spines = (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect();
    (sim, spines)
}

#[test]
fn a_scheme_of_thirty_lines_forwards() {
    let (sim, spines) = load(Scheme::new(&SPREAD), 64);
    assert_eq!(sim.host(5).received(), 6_400);
    assert!(spines.iter().all(|&packets| packets > 0), "{spines:?}");
    let (_, alone) = load(Scheme::new(&SPREAD), 1);
    assert_eq!(alone.iter().filter(|&&packets| packets > 0).count(), 1, "one flow, no queue: one uplink");
}
// test: end

#[test]
fn a_whole_scheme_has_scratch_timers_and_refusals() {
    let (sim, _) = load(Scheme::new(&COUNTING), 1);
    assert_eq!(sim.host(5).received(), 100);
    let (sim, spines) = load(Scheme::new(&COUNTING).with("most", 2.0).unwrap(), 1);
    assert_eq!((sim.host(5).received(), spines[0]), (0, 100), "the third switch drops them");
    let third = sim.clos().t0_switch(0, 1);
    assert_eq!(sim.switch(third).1.refused[NoForward::HopLimit as usize], 100);
}

// pause: begin
/// A flow that is silent between its 50th and its 51st packet may leave by another uplink of LetFlow, and by no other before.
#[test]
fn a_gap_moves_a_flow() {
    let clos = Clos { planes: 1, t0: 2, t1: 16, hosts: 4, scheme: named("letflow").unwrap(), ..Clos::default() };
    let dst = address::gid(3);
    let flow =
        Flow { start: Instant::ZERO, port: PortNum::from_plane(0), dst, traffic_class: 0, wire_len: 1000, count: 100 };
    let uplinks = |gap_us: u64| {
        // 100 Gb/s: a packet every 80 ns.
        let (from, until) = (Instant::from_nanos(4_000), Instant::from_nanos(4_000 + gap_us * 1_000));
        let host = |host| Generator::new(if host == 0 { vec![flow] } else { Vec::new() }).pausing(0, from, until);
        let mut sim = Sim::new(clos, 1, (), host).unwrap();
        assert!(sim.run_to_quiet(Instant::from_nanos(100_000_000)) && sim.host(3).received() == 100);
        (0..clos.t1).filter(|&t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded > 0).count()
    };
    assert_eq!((uplinks(40), uplinks(60)), (1, 2), "the default gap is 50 us");
}
// pause: end

// transport: begin
use std::collections::{BTreeMap, VecDeque};

use mrc_core::PortMask;
use mrc_sim::workload::Exchange;
use mrc_sim::{Datagram, Host, HostSite, Transport, TransportCounters, TransportInfo};

/// Registered in `TRANSPORTS` it is `kind = "stop-and-wait"` of a scenario, with `params.rto_us` beside it.
static STOP_AND_WAIT: TransportInfo = TransportInfo {
    name: "stop-and-wait",
    about: "One packet at a time; the next one leaves when it is acknowledged.",
    params: &[Param {
        name: "rto_us",
        about: "Time until it goes again, in microseconds.",
        default: 100.0,
        range: (1.0, 1e6),
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
            (self.offset, self.due) = (self.offset + u64::from(data.bytes), now);
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
        Datagram { from: self.host, to, message, offset: self.offset, bytes, ack: false, entropy: 50_000 }
            .write(port, out);
        world.on_sent(message, bytes, port);
        self.counters.data += 1;
        self.due = now.after(self.rto_ns);
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
        Self { host: site.host, rto_ns, messages, offset: 0, due: Instant::ZERO, answers, arrived, counters }
    }
}
// transport: end

// transport test: begin
use std::path::Path;

use mrc_sim::run::{Options, Results, run_hosts};
use mrc_sim::scenario::{Built, load_str};

fn built(text: &str) -> Built {
    load_str("test.toml", text, Path::new("."), &[], Some(1)).unwrap()
}

/// Runs what a scenario describes with `STOP_AND_WAIT` on all hosts: before it is registered.
fn play(built: &Built) -> Results {
    let topology = &built.topology;
    let values = STOP_AND_WAIT.values(&BTreeMap::new()).unwrap();
    let host = |host| (STOP_AND_WAIT.build)(&HostSite { topology, host, seed: 1 }, &values);
    run_hosts((0..topology.hosts()).map(host), built, &Options::default(), &mut |_| {}).unwrap().results
}

#[test]
fn a_transport_of_one_file_carries_messages() {
    let text = "[topology]\nhost_gbps = 10\n[transport]\nkind = \"line-rate\"\n\
        [[workload]]\nkind = \"permutation\"\nbytes = 102400\n";
    let results = play(&built(text));
    assert!(results.finished && results.misplaced == 0);
    assert_eq!(results.data_packets, 4 * 100);
    let loss = "[[fault]]\nkind = \"loss\"\nprobability = 0.1\n";
    let lossy = play(&built(&format!("{text}{loss}")));
    assert!(lossy.finished && lossy.misplaced == 0 && lossy.end_us > results.end_us + 100.0);
}
// transport test: end

// workload: begin
use mrc_sim::workload::{Connections, Group, Message, Plan};

/// A relay: each host hands 64 KiB to the next one when it has got them, `rounds` times around.
fn relay(hosts: u32, rounds: u32) -> Plan {
    let mut plan = Plan::default();
    let group = plan.group(Group::flows("relay"));
    let mut last = None;
    for hop in 0..hosts * rounds {
        let (src, dst, iteration) = (hop % hosts, (hop + 1) % hosts, hop / hosts);
        // `delay_ns` is what a host computes before it hands on.
        let message = plan.push(Message { src, dst, bytes: 65_536, group, iteration, delay_ns: 2_000 });
        if let Some(last) = last {
            plan.after_delivery(last, message);
        }
        last = Some(message);
    }
    plan
}

/// Runs it on what a scenario describes, in place of its own workload.
#[test]
fn a_workload_of_one_function_runs() {
    let mut built = built("[topology]\nt0 = 2\nhosts_per_t0 = 4\n[[workload]]\n");
    built.plan = relay(8, 3);
    built.pairs = built.plan.connections(Connections::PerPair, &|_| 0);
    let results = mrc_sim::run::run(&built, &Options::default(), &mut |_| {}).unwrap().results;
    assert!(results.finished);
    // One message at a time: 24 of them, each with its computation and at least its time on a link of 100 Gb/s.
    assert!(results.end_us > 24.0 * (2.0 + 65_536.0 * 8.0 / 100e3), "{} us", results.end_us);
}
// workload: end

#[test]
fn the_page_quotes_this_file() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/extend.md")).unwrap();
    let source = include_str!("extend.rs");
    for name in ["scheme", "whole", "test", "pause", "transport", "transport test", "workload"] {
        let (begin, end) = (format!("// {name}: begin\n"), format!("// {name}: end\n"));
        let part = source.split(&begin).nth(1).and_then(|rest| rest.split(&end).next()).unwrap();
        assert!(page.contains(&format!("```rust\n{part}```")), "docs/extend.md lacks the present text of `{name}`");
    }
}

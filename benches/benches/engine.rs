//! The engine per data packet through both ends, its share of acknowledgements included, beside smoltcp's TCP in memory: one
//! queue pair and many, bursts and single frames, large writes and small ones (`mrc_benches::cases`). Prints medians of
//! interleaved pairs and their ratios against the targets of `docs/performance.md`; `benches/instructions.sh` counts the
//! instructions of the same loads.

use std::hint::black_box;

use mrc_benches::cases::{CASES, Case, ONE, named};
use mrc_benches::{Load, Ring, Side, Work, median, pairs, per_unit, storage, transfer};
use mrc_core::{Instant, OwnedStorage};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Loopback, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as TcpInstant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

/// Pairs of runs per case.
const PAIRS: usize = 7;

fn main() {
    if let Some(name) = std::env::var_os("MRC_BENCH_CASE") {
        // For instruction counts (`benches/instructions.sh`): one case, a round to warm up and the others.
        let case = name.to_str().and_then(named).expect("MRC_BENCH_CASE names a case");
        let (mut of_a, mut of_b) = (storage(case.qps), storage(case.qps));
        let mut wired = Wired::new(&mut of_a, &mut of_b, case);
        println!("{} {}", wired.rounds(1, case.load), wired.rounds(case.rounds, case.load));
        return;
    }
    println!("engine: on {}", machine());
    println!(
        "engine: headers only, ns of processor time per data packet through both ends; smoltcp per data segment, MTU 4180, no checksums"
    );
    let mut one = f64::NAN;
    for case in &CASES {
        one = report(case, one);
    }
    copies();
}

/// Prints one case; returns the time of the first one, `one`, which the others are compared with.
fn report(case: &Case, one: f64) -> f64 {
    let (mut of_a, mut of_b) = (storage(case.qps), storage(case.qps));
    let mut wired = Wired::new(&mut of_a, &mut of_b, case);
    wired.rounds(1, case.load);
    let sockets = if case.qps > 1 { 64 } else { 1 };
    let (ns, tcp, ratio) =
        pairs(PAIRS, || per_unit(|| wired.rounds(case.rounds, case.load)), || smoltcp_per_segment(sockets));
    let fewer = 1.0 / ratio;
    let (times, verdict) = match case.name {
        "one" => (1.0, if fewer >= 6.0 { "smoltcp / engine >= 6: PASS" } else { "smoltcp / engine >= 6: MISS" }),
        "many" | "many-ample" if ns <= 1.4 * one && fewer > 1.0 => (ns / one, "<= 1.4 times one: PASS"),
        "many" | "many-ample" => (ns / one, "<= 1.4 times one: MISS"),
        "cold" if ns <= 4.0 * one => (ns / one, "<= 4 times one: PASS"),
        "cold" => (ns / one, "<= 4 times one: MISS"),
        _ => (ns / one, ""),
    };
    println!(
        "engine: {:<46} {ns:6.1} ns, {times:4.2} times one; smoltcp with {sockets:2} {tcp:6.1} ns, ratio {fewer:4.1}; {verdict}",
        case.about
    );
    if one.is_nan() { ns } else { one }
}

/// One queue pair with one copy and the ICRC at each end.
fn copies() {
    let (mut of_a, mut of_b) = (storage(1), storage(1));
    let mut wired = Wired::new(&mut of_a, &mut of_b, &ONE);
    let load = Load { work: Work::CopyAndIcrc, ..ONE.load };
    wired.rounds(1, load);
    let full = median((0..PAIRS).map(|_| per_unit(|| wired.rounds(ONE.rounds, load))).collect());
    let verdict = if full <= 300.0 { "PASS" } else { "MISS" };
    println!("engine: copy and ICRC, 4 KiB, cache-warm {full:6.1} ns, both ends (target 300) {verdict}");
}

/// Two endpoints, connected.
struct Wired<'s> {
    a: Side<'s>,
    b: Side<'s>,
    ring: Ring,
    now: Instant,
}

impl<'s> Wired<'s> {
    fn new(of_a: &'s mut OwnedStorage, of_b: &'s mut OwnedStorage, case: &Case) -> Self {
        let mut a = Side::with_window(of_a, 0, case.qps, case.window_bytes);
        let mut b = Side::with_window(of_b, 1, case.qps, case.window_bytes);
        a.connect(0, &b.qps);
        b.connect(1, &a.qps);
        Self { a, b, ring: Ring::default(), now: Instant::from_nanos(1_000) }
    }

    fn rounds(&mut self, rounds: u64, load: Load) -> u64 {
        transfer(&mut self.a, &mut self.b, &mut self.ring, &mut self.now, rounds, load)
    }
}

/// The processor's name, so that figures of different machines are not compared.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cpus} CPUs", model.map_or("a processor without a name", |(_, name)| name.trim()))
}

/// smoltcp's loopback without checksums and with the MTU that carries 4 KiB and a bit.
struct Plain(Loopback);

impl Device for Plain {
    type RxToken<'a> = <Loopback as Device>::RxToken<'a>;
    type TxToken<'a> = <Loopback as Device>::TxToken<'a>;

    fn receive(&mut self, at: TcpInstant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.0.receive(at)
    }

    fn transmit(&mut self, at: TcpInstant) -> Option<Self::TxToken<'_>> {
        self.0.transmit(at)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = self.0.capabilities();
        caps.max_transmission_unit = 4180 + 14;
        caps.checksum = ChecksumCapabilities::ignored();
        caps
    }
}

/// Nanoseconds per full segment of `count` bulk transfers at once through smoltcp, both ends in one interface. Together
/// their windows are as large as that of one.
fn smoltcp_per_segment(count: usize) -> f64 {
    const TOTAL: usize = 40 << 20;
    let window = ((256 << 10) / count).max(16 << 10);
    let mut device = Plain(Loopback::new(Medium::Ethernet));
    let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
    let mut iface = Interface::new(config, &mut device, TcpInstant::from_micros(0));
    iface.update_ip_addrs(|list| list.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8)).expect("room for an address"));
    let buffer = || tcp::SocketBuffer::new(vec![0; window]);
    let mut sockets = SocketSet::new(Vec::new());
    let connections: Vec<_> = (0..count as u16)
        .map(|nth| {
            let server = sockets.add(tcp::Socket::new(buffer(), buffer()));
            let client = sockets.add(tcp::Socket::new(buffer(), buffer()));
            sockets.get_mut::<tcp::Socket<'_>>(server).listen(1_000 + nth).expect("listen");
            let from = sockets.get_mut::<tcp::Socket<'_>>(client);
            from.connect(iface.context(), (IpAddress::v4(127, 0, 0, 1), 1_000 + nth), 50_000 + nth).expect("connect");
            (server, client)
        })
        .collect();
    let data = vec![7u8; window];
    let each = TOTAL / count;
    let (mut sent, mut got, mut micros) = (vec![0usize; count], 0usize, 0i64);
    per_unit(|| {
        while got < each * count {
            micros += 10;
            iface.poll(TcpInstant::from_micros(micros), &mut device, &mut sockets);
            for (&(server, client), sent) in connections.iter().zip(&mut sent) {
                let from = sockets.get_mut::<tcp::Socket<'_>>(client);
                if from.can_send() && *sent < each {
                    *sent += from.send_slice(&data[..data.len().min(each - *sent)]).expect("open");
                }
                let to = sockets.get_mut::<tcp::Socket<'_>>(server);
                if to.can_recv() {
                    got += to.recv(|bytes| (bytes.len(), black_box(bytes).len())).expect("open");
                }
            }
        }
        (TOTAL / 4128) as u64
    })
}

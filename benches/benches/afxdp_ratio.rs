//! MRC over AF_XDP against raw AF_XDP frames of the same size through the same fabric, in interleaved pairs of one run.
//! It measures the goodput of 1 MiB writes in packets of 4 KiB, beside frames that nobody reads and beside frames that are
//! copied. It also measures writes of 64 bytes per second and the latency of 8-byte writes. It prints
//! medians and the medians of the ratios. It needs root.
//!
//!   cargo bench -p mrc-benches --bench afxdp_ratio [-- --pairs N] [--only goodput|copied|small|latency]

mod lab;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::{PAYLOAD, host, median, raw_ping_pong, raw_rate};
use mrc_afxdp::device::DeviceStats;
use mrc_core::RetryConfig;
use mrc_lab::{Fabric, Shape, enter};
use mrc_verbs_shim::host::HostFile;
use mrc_verbs_shim::{
    Access, CompletionQueue, Context, MemRegion, MemoryRegion, QpAddress, QpAttr, QueuePair, Status, WriteWr,
};
use mrc_wire::Psn;

const PAIRS: usize = 5;
const RUN: Duration = Duration::from_millis(1500);
const WARM_UP: Duration = Duration::from_millis(300);
/// Round trips of a latency run.
const EXCHANGES: usize = 5000;

/// Writes that keep a flow busy.
struct Flow {
    qps: usize,
    /// Bytes of a write.
    len: usize,
    /// Writes in flight per QP, and how many of them complete with one completion.
    depth: usize,
    signal_every: usize,
    /// How long the program sleeps when it finds no completion; a tenth of what is in flight takes longer.
    nap: Duration,
}

const LARGE: Flow = Flow { qps: 2, len: 1 << 20, depth: 8, signal_every: 1, nap: Duration::from_micros(500) };
const SMALL: Flow = Flow { qps: 4, len: 64, depth: 128, signal_every: 32, nap: Duration::from_micros(50) };

/// Something measured both ways.
struct Row {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    target: f64,
    /// Whether the ratio should be at least the target.
    at_least: bool,
    mrc: fn(&Fabric) -> f64,
    raw: fn(&Fabric) -> f64,
}

const ROWS: [Row; 4] = [
    Row {
        name: "goodput",
        title: "goodput at 4 KiB",
        unit: "Gb/s",
        target: 0.85,
        at_least: true,
        mrc: |fabric| gigabits(write_rate(fabric, &LARGE) * LARGE.len as f64),
        raw: |fabric| gigabits(raw_rate(fabric, PAYLOAD, None, WARM_UP, RUN) * PAYLOAD as f64),
    },
    Row {
        name: "copied",
        title: "goodput at 4 KiB, raw frames copied out of memory and into memory",
        unit: "Gb/s",
        target: 0.85,
        at_least: true,
        mrc: |fabric| gigabits(write_rate(fabric, &LARGE) * LARGE.len as f64),
        raw: |fabric| {
            let memory = Some(LARGE.len * LARGE.qps);
            gigabits(raw_rate(fabric, PAYLOAD, memory, WARM_UP, RUN) * PAYLOAD as f64)
        },
    },
    Row {
        name: "small",
        title: "writes of 64 B",
        unit: "M/s",
        target: 0.7,
        at_least: true,
        mrc: |fabric| write_rate(fabric, &SMALL) / 1e6,
        raw: |fabric| raw_rate(fabric, SMALL.len, None, WARM_UP, RUN) / 1e6,
    },
    Row {
        name: "latency",
        title: "latency of 8 B, p50",
        unit: "us",
        target: 1.3,
        at_least: false,
        mrc: write_latency,
        raw: |fabric| raw_ping_pong(&host(fabric, "hA"), &host(fabric, "hB"), EXCHANGES),
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |of| arguments.iter().skip_while(|argument| *argument != of).nth(1);
    let pairs = value("--pairs").and_then(|n| n.parse().ok()).unwrap_or(PAIRS).max(1);
    let only = value("--only");
    if let Err(missing) = mrc_lab::requirements() {
        println!("afxdp_ratio: SKIP: {missing}");
        return;
    }
    let prefix = format!("mrcbench{}", std::process::id());
    let fabric = match Fabric::up(Shape { prefix, ..Shape::default() }) {
        Ok(fabric) => fabric.guarded(),
        Err(error) => return println!("afxdp_ratio: SKIP: {error}"),
    };
    for row in ROWS.iter().filter(|row| only.is_none_or(|only| only == row.name)) {
        measure(&fabric, row, pairs);
    }
}

fn measure(fabric: &Fabric, row: &Row, pairs: usize) {
    let Row { title, unit, target, at_least, .. } = *row;
    let (mut ours, mut raws, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (mrc, raw) = ((row.mrc)(fabric), (row.raw)(fabric));
        println!("{title}, pair {pair}: MRC {mrc:.2} {unit}, raw AF_XDP {raw:.2} {unit}, ratio {:.2}", mrc / raw);
        ours.push(mrc);
        raws.push(raw);
        ratios.push(mrc / raw);
    }
    let ratio = median(ratios);
    let verdict = if (ratio >= target) == at_least { "PASS" } else { "MISS" };
    let sign = if at_least { ">=" } else { "<=" };
    let (mrc, raw) = (median(ours), median(raws));
    println!(
        "afxdp_ratio: {title}, medians of {pairs} pairs: MRC {mrc:.2}, raw {raw:.2} {unit}, ratio {ratio:.2} (target {sign} {target}) {verdict}"
    );
}

fn gigabits(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e9
}

/// One host with everything a program needs.
struct End {
    host: HostFile,
    context: Context,
    mr: MemoryRegion,
    cq: CompletionQueue,
    qps: Vec<QueuePair>,
}

impl End {
    fn open(fabric: &Fabric, name: &str, qps: usize, bytes: usize) -> Self {
        let host = host(fabric, name);
        let namespace = host.namespace.as_deref().expect("lab hosts have namespaces");
        let context = enter(namespace, || Context::open(host.device())).expect("namespace").expect("device");
        let pd = context.alloc_pd();
        let mr = pd.reg_mr(MemRegion::map(bytes).expect("memory"), Access::REMOTE_WRITE).expect("region");
        let cq = context.create_cq(256).expect("completion queue");
        let qps = (0..qps).map(|_| pd.create_qp(&cq).expect("queue pair")).collect();
        Self { host, context, mr, cq, qps }
    }

    fn connect(&self, to: &Self) {
        let peer = self.host.peer(to.host.gid).expect("peer");
        let handle = self.context.add_peer(self.host.peer_config(peer).expect("peer")).expect("peer");
        let profile = self.context.create_ev_profile(self.host.paths_to(peer).expect("paths")).expect("profile");
        let mut attr = QpAttr::new(handle, profile);
        attr.rts.retry = RetryConfig { timeout: 12, linear: 7, exponential: 8 };
        for (qp, far) in self.qps.iter().zip(&to.qps) {
            let (va, rkey) = (to.mr.addr(), to.mr.rkey());
            let address = QpAddress { qpn: far.qpn(), psn: Psn::new(0), mpr_dest: 8, va, rkey };
            qp.connect(&attr, &address).expect("connect");
        }
    }

    /// Posts a write of the first QP or another; `false` when there is no room.
    fn write(&mut self, to: &Target, qp: usize, offset: usize, len: usize, signaled: bool) -> bool {
        let remote_va = to.va + offset as u64;
        let (wr_id, offset, len) = (qp as u64, offset as u64, len as u32);
        self.cq.post_write(
            &self.qps[qp],
            &WriteWr { wr_id, mr: &self.mr, offset, len, remote_va, rkey: to.rkey, signaled },
        )
    }

    fn stats(&self) -> DeviceStats {
        self.context.stats().expect("the device is open")
    }
}

/// Memory of the other side.
struct Target {
    va: u64,
    rkey: mrc_wire::Rkey,
}

impl Target {
    fn of(end: &End) -> Self {
        Self { va: end.mr.addr(), rkey: end.mr.rkey() }
    }
}

fn pair(fabric: &Fabric, qps: usize, bytes: usize) -> (End, End) {
    let (a, b) = (End::open(fabric, "hA", qps, bytes), End::open(fabric, "hB", qps, bytes));
    b.connect(&a);
    a.connect(&b);
    (a, b)
}

/// Writes per second.
fn write_rate(fabric: &Fabric, flow: &Flow) -> f64 {
    let (mut a, b) = pair(fabric, flow.qps, flow.len * flow.qps);
    let to = Target::of(&b);
    let mut posted = vec![0usize; flow.qps];
    let mut open = vec![0usize; flow.qps];
    let (mut done, mut counted_from) = (0usize, None);
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        if counted_from.is_none() && elapsed >= WARM_UP {
            (done, counted_from) = (0, Some(Instant::now()));
        }
        if elapsed >= WARM_UP + RUN {
            break;
        }
        for qp in 0..flow.qps {
            while open[qp] < flow.depth {
                let signaled = (posted[qp] + 1).is_multiple_of(flow.signal_every);
                if !a.write(&to, qp, qp * flow.len, flow.len, signaled) {
                    break;
                }
                posted[qp] += 1;
                open[qp] += 1;
            }
        }
        match a.cq.poll() {
            Some(completion) => {
                assert_eq!(completion.status, Status::Success);
                open[completion.wr_id as usize] -= flow.signal_every;
                done += flow.signal_every;
            }
            None => std::thread::sleep(flow.nap),
        }
    }
    let seconds = counted_from.map_or(1.0, |at: Instant| at.elapsed().as_secs_f64());
    explain(&a.stats(), &b.stats());
    done as f64 / seconds
}

/// What the frames cost, for whoever asks why.
fn explain(a: &DeviceStats, b: &DeviceStats) {
    let sum =
        |stats: &DeviceStats, of: fn(&mrc_afxdp::PortStats) -> u64| stats.ports.iter().map(of).sum::<u64>() as f64;
    let data = a.engine.tx_data as f64;
    println!(
        "    {:.1} % sent again; per packet {:.2} SACKs and {:.2} Transport ACKs; frames per send call: {:.1} there, {:.1} back",
        a.engine.retransmitted as f64 / data * 100.0,
        b.engine.tx_sack as f64 / data,
        b.engine.tx_ack as f64 / data,
        sum(a, |port| port.tx_frames) / sum(a, |port| port.tx_kicks),
        sum(b, |port| port.tx_frames) / sum(b, |port| port.tx_kicks),
    );
}

/// Half of the median round trip of two writes, each in reply to the other, in microseconds: from the post until the value
/// shows in the other's memory. Both sides wait as a program over verbs does: they look at their memory and poll.
fn write_latency(fabric: &Fabric) -> f64 {
    const LEN: usize = 8;
    let (mut a, mut b) = pair(fabric, 1, 2 * LEN);
    let (to_a, to_b) = (Target::of(&a), Target::of(&b));
    let stop = AtomicBool::new(false);
    let total = EXCHANGES + EXCHANGES / 10;
    // The values of A lie in the first word on both sides, those of B in the second.
    let exchange = |end: &mut End, to: &Target, ours: usize, round: u64| {
        end.mr.memory().place(ours as u64, &round.to_ne_bytes()).expect("in bounds");
        assert!(end.write(to, 0, ours, LEN, round.is_multiple_of(16)), "room for a write");
    };
    let wait = |end: &mut End, theirs: usize, round: u64| {
        while end.mr.memory().load_u64(theirs as u64).expect("in bounds") != round {
            if let Some(completion) = end.cq.poll() {
                assert_eq!(completion.status, Status::Success);
            }
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let times = std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            for round in 1..=total as u64 {
                wait(&mut b, 0, round);
                exchange(&mut b, &to_a, LEN, round);
            }
            // The last answer is on its way only as long as somebody drives.
            while !stop.load(Ordering::Relaxed) {
                b.cq.poll();
            }
        });
        let mut times = Vec::with_capacity(total);
        for round in 1..=total as u64 {
            let start = Instant::now();
            exchange(&mut a, &to_b, 0, round);
            wait(&mut a, LEN, round);
            times.push(start.elapsed().as_nanos() as f64 / 2e3);
        }
        stop.store(true, Ordering::Relaxed);
        far.join().expect("the far side");
        times
    });
    explain(&a.stats(), &b.stats());
    let mut times = times[EXCHANGES / 10..].to_vec();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[times.len() * percent / 100];
    println!(
        "    quantiles: {:.1} us at 1 %, {:.1} at 25 %, {:.1} at 75 %, {:.1} at 99 %",
        at(1),
        at(25),
        at(75),
        at(99)
    );
    at(50)
}

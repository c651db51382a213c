//! `mrc lab trial`: a transfer through switches that lose, trim, mark and lose a whole plane, every byte checked, and the
//! books of the switches held against those of the two engines.

use std::fmt::Write as _;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use mrc_core::Stats;
use mrc_lab::{Fabric, Impairment, LabError, PortCounters, PortReport, VirtualQueue};
use mrc_verbs_shim::QpState;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::out::errln;
use crate::session::DeviceArgs;
use crate::transfer::Transfer;

/// The uplinks of host A's T0: every packet between the hosts passes exactly one of them, in either direction.
const UPLINKS: &str = "-t0a-t1";
/// The plane that is withdrawn.
const PLANE: u8 = 1;
/// Rate of each uplink while there is a queue; eight of them stay below what one core forwards.
const SLOW_BITS_PER_SECOND: u64 = 40_000_000;
/// Backlog of an uplink above which it marks.
const MARK_BYTES: u64 = 16_000;
/// Acknowledgement timer: 1.024 us * 2^15 = 33.6 ms, more than the slowed queues hold.
const TIMEOUT: u8 = 15;
/// Time for the last answers and probes to arrive.
const SETTLE: Duration = Duration::from_millis(200);

/// What the switches do in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Calm,
    Loss,
    Trimming,
    Queue,
    Withdrawal,
}

impl Weather {
    const ALL: [Self; 5] = [Self::Calm, Self::Loss, Self::Trimming, Self::Queue, Self::Withdrawal];

    fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Loss => "1 % loss",
            Self::Trimming => "10 % trimming",
            Self::Queue => "ECN at a queue",
            Self::Withdrawal => "plane withdrawn",
        }
    }

    fn impairment(self) -> Option<Impairment> {
        let quiet = Impairment { seed: 1, ..Impairment::default() };
        let (never, bits_per_second) = (1 << 40, SLOW_BITS_PER_SECOND);
        let queue = VirtualQueue { bits_per_second, mark_bytes: MARK_BYTES, trim_bytes: never, drop_bytes: never };
        match self {
            Self::Calm => Some(quiet),
            Self::Loss => Some(Impairment { loss_ppm: 10_000, ..quiet }),
            Self::Trimming => Some(Impairment { trim_ppm: 100_000, ..quiet }),
            Self::Queue => Some(Impairment { queue: Some(queue), ..quiet }),
            Self::Withdrawal => None,
        }
    }
}

/// Something that must hold.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// In words, with the numbers.
    pub what: String,
    /// Whether it did.
    pub ok: bool,
}

/// One phase: what the switches say they did, what the engines saw of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Phase {
    /// Its name.
    pub phase: &'static str,
    /// Bytes of completed, checked messages.
    pub bytes: u64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// Longest time between two completions, in milliseconds.
    pub longest_stall_ms: f64,
    /// Switches, from A to B.
    pub forward: PortCounters,
    /// Switches, from B to A.
    pub backward: PortCounters,
    /// Engine A: packets sent, of any kind.
    pub sent: u64,
    /// Engine B: packets received, of any kind.
    pub arrived: u64,
    /// Packets from A to B that neither a switch reports as lost nor B saw: the kernel's queues, or a port that was down.
    pub elsewhere: u64,
    /// Engine A: write packets sent again.
    pub retransmitted: u64,
    /// Engine B: trimmed packets seen.
    pub seen_trimmed: u64,
    /// Engine A: trim NACKs received.
    pub trim_nacks: u64,
    /// Engine B: marked packets seen.
    pub seen_marked: u64,
    /// Engine A: EVs that became SKIP.
    pub ev_skipped: u64,
    /// Engine A: EVs that became ASSUMED_BAD.
    pub ev_assumed_bad: u64,
    /// What had to hold.
    pub checks: Vec<Check>,
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `ok`, or what arrived wrong.
    pub integrity: String,
    /// Queue pairs of both sides that ended in ERROR.
    pub qp_errors: u64,
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

impl Report {
    /// Whether every byte was right, no queue pair failed and everything held that had to.
    pub fn passed(&self) -> bool {
        let checks = self.phases.iter().flat_map(|phase| &phase.checks).all(|check| check.ok);
        self.integrity == "ok" && self.qp_errors == 0 && checks
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<16} {:>6} {:>8} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>9}\n",
            "phase", "Gb/s", "sent", "lost", "trimmed", "NACKs", "marked", "CE seen", "resent", "else", "stall"
        );
        for phase in &self.phases {
            let _ = writeln!(
                text,
                "{:<16} {:>6.2} {:>8} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6.0} ms",
                phase.phase,
                phase.gbit_per_s,
                phase.sent,
                phase.forward.lost + phase.forward.dropped,
                phase.forward.trimmed,
                phase.trim_nacks,
                phase.forward.marked,
                phase.seen_marked,
                phase.retransmitted,
                phase.elsewhere,
                phase.longest_stall_ms
            );
        }
        for (phase, check) in self.phases.iter().flat_map(|phase| phase.checks.iter().map(move |check| (phase, check)))
        {
            let _ = writeln!(text, "{} {}: {}", if check.ok { "ok  " } else { "FAIL" }, phase.phase, check.what);
        }
        let bytes: u64 = self.phases.iter().map(|phase| phase.bytes).sum();
        let _ = writeln!(text, "integrity: {} ({bytes} bytes checked), {} QP errors", self.integrity, self.qp_errors);
        text
    }
}

/// Both engines' counters.
struct Books {
    a: Stats,
    b: Stats,
}

fn sent(stats: &Stats) -> u64 {
    stats.ports.iter().map(|port| port.tx_packets).sum()
}

fn received(stats: &Stats) -> u64 {
    stats.ports.iter().map(|port| port.rx_packets).sum()
}

fn books(transfer: &Transfer) -> anyhow::Result<Books> {
    Ok(Books { a: transfer.a.context.stats()?.engine, b: transfer.b.context.stats()?.engine })
}

/// Builds a fabric of its own, runs every phase for `each`, removes the fabric.
pub fn run(each: Duration, interrupt: &Interrupt) -> anyhow::Result<Report> {
    mrc_lab::impair_requirements()?;
    let fabric = Fabric::temporary("trial")?;
    let mut transfer = Transfer::open(&fabric, &DeviceArgs { timeout: TIMEOUT, ..DeviceArgs::own_fabric(true) })?;
    let mut phases = Vec::new();
    for weather in Weather::ALL {
        errln!("{} for {:.1} s", weather.name(), each.as_secs_f64());
        let phase = phase(&mut transfer, &fabric, weather, each, interrupt)?;
        // What was cut short says nothing of its weather.
        if interrupt.is_set() {
            break;
        }
        phases.push(phase);
    }
    let mut qp_errors = 0;
    for qp in transfer.a.qps.iter().chain(&transfer.b.qps) {
        qp_errors += u64::from(qp.info()?.is_none_or(|info| info.state == QpState::Error));
    }
    Ok(Report { integrity: transfer.wrong.clone().unwrap_or_else(|| "ok".to_owned()), qp_errors, phases })
}

fn phase(
    transfer: &mut Transfer,
    fabric: &Fabric,
    weather: Weather,
    each: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Phase> {
    let uplinks: Vec<String> =
        fabric.shape().links().iter().map(mrc_lab::Link::name).filter(|name| name.contains(UPLINKS)).collect();
    for link in &uplinks {
        if let Some(impairment) = weather.impairment() {
            fabric.impair(link, &impairment)?;
        }
        if weather == Weather::Queue {
            fabric.slow(link, SLOW_BITS_PER_SECOND, None)?;
        }
    }
    let (before, bytes) = (books(transfer)?, transfer.bytes);
    transfer.reset_stall();
    let start = Instant::now();
    let plane = std::thread::scope(|scope| drive(transfer, fabric, weather, each, interrupt, scope))?;
    let seconds = start.elapsed().as_secs_f64();
    transfer.drain(interrupt)?;
    std::thread::sleep(SETTLE);
    let (after, ports) = (books(transfer)?, fabric.impaired()?);
    let mut report = account(weather, &before, &after, &ports);
    report.bytes = transfer.bytes - bytes;
    report.gbit_per_s = report.bytes as f64 * 8.0 / seconds / 1e9;
    report.longest_stall_ms = transfer.longest_stall.as_secs_f64() * 1e3;
    judge(weather, &mut report);
    if weather == Weather::Queue {
        let (waits, dropped) = fabric.slowed()?.iter().fold((0, 0), |sum, q| (sum.0 + q.waits, sum.1 + q.dropped));
        report.check(waits > 0 && dropped == 0, format!("packets waited in real queues ({waits}), {dropped} dropped"));
    }
    if let Some(plane) = plane {
        plane.judge(&mut report);
    }
    fabric.clear("all")?;
    for link in uplinks.iter().filter(|_| weather == Weather::Queue) {
        fabric.unslow(link)?;
    }
    Ok(report)
}

/// Packets that A sent through the plane while it was away, and after it came back.
struct PlaneTraffic {
    away: u64,
    back: u64,
}

impl PlaneTraffic {
    fn judge(&self, report: &mut Phase) {
        report.check(self.away == 0, format!("{} packets through plane {PLANE} while it was away", self.away));
        report.check(self.back > 0, format!("{} packets through it once it was back", self.back));
    }
}

/// Keeps the transfer going for `each`; withdraws a plane after a third and restores it after two.
fn drive<'scope>(
    transfer: &mut Transfer,
    fabric: &'scope Fabric,
    weather: Weather,
    each: Duration,
    interrupt: &Interrupt,
    scope: &'scope Scope<'scope, '_>,
) -> anyhow::Result<Option<PlaneTraffic>> {
    let start = Instant::now();
    let through = |transfer: &Transfer| -> anyhow::Result<u64> {
        Ok(transfer.a.context.stats()?.engine.ports[usize::from(PLANE)].tx_packets)
    };
    if weather != Weather::Withdrawal {
        while start.elapsed() < each && !interrupt.is_set() {
            transfer.step(true)?;
        }
        return Ok(None);
    }
    // The commands take milliseconds: in threads of their own, or it would look like a stall.
    let change = |transfer: &mut Transfer, until: Duration, task: fn(&Fabric) -> Result<(), LabError>| {
        let thread: ScopedJoinHandle<'_, Result<(), LabError>> = scope.spawn(move || task(fabric));
        // What was in flight, and the interface's own notice, must have passed.
        let settled = Instant::now() + SETTLE;
        while (!thread.is_finished() || Instant::now() < settled) && !interrupt.is_set() {
            transfer.step(true)?;
        }
        thread.join().map_err(|_| anyhow::anyhow!("the thread that changes the fabric panicked"))??;
        let first = through(transfer)?;
        while start.elapsed() < until && !interrupt.is_set() {
            transfer.step(true)?;
        }
        anyhow::Ok(through(transfer)? - first)
    };
    while start.elapsed() < each / 3 && !interrupt.is_set() {
        transfer.step(true)?;
    }
    let away = change(transfer, each * 2 / 3, |fabric| fabric.withdraw(PLANE))?;
    let back = change(transfer, each, |fabric| fabric.restore(PLANE))?;
    Ok(Some(PlaneTraffic { away, back }))
}

/// Sums over ports.
fn sum<'p>(ports: impl Iterator<Item = &'p PortReport>) -> PortCounters {
    ports.fold(PortCounters::default(), |sum, port| PortCounters {
        packets: sum.packets + port.counters.packets,
        lost: sum.lost + port.counters.lost,
        dropped: sum.dropped + port.counters.dropped,
        trimmed: sum.trimmed + port.counters.trimmed,
        marked: sum.marked + port.counters.marked,
    })
}

fn account(weather: Weather, before: &Books, after: &Books, ports: &[PortReport]) -> Phase {
    let of_a = |count: fn(&Stats) -> u64| count(&after.a) - count(&before.a);
    let of_b = |count: fn(&Stats) -> u64| count(&after.b) - count(&before.b);
    let up = |port: &&PortReport| port.from.contains("-t0a");
    let forward = sum(ports.iter().filter(up));
    let (sent, arrived) = (of_a(sent), of_b(received));
    Phase {
        phase: weather.name(),
        forward,
        backward: sum(ports.iter().filter(|port| !up(port))),
        sent,
        arrived,
        elsewhere: sent.saturating_sub(forward.lost + forward.dropped + arrived),
        retransmitted: of_a(|stats| stats.retransmitted),
        seen_trimmed: of_b(|stats| stats.rx_trimmed),
        trim_nacks: of_a(|stats| stats.rx_nack_trimmed),
        seen_marked: of_b(|stats| stats.rx_marked),
        ev_skipped: of_a(|stats| stats.ev_skipped),
        ev_assumed_bad: of_a(|stats| stats.ev_assumed_bad),
        ..Phase::default()
    }
}

/// Probes of paths are data to switches and have nothing to cut: at most so many of the packets after heavy trimming.
const PROBES: f64 = 0.1;

impl Phase {
    fn check(&mut self, ok: bool, what: String) {
        self.checks.push(Check { what, ok });
    }

    /// Whether `seen` is `done` but for what got lost elsewhere.
    fn matches(&mut self, done: u64, seen: u64, what: &str) {
        let missing = done.checked_sub(seen);
        let ok = missing.is_some_and(|missing| missing <= self.elsewhere);
        self.check(ok, format!("{done} {what} by switches, {seen} seen"));
    }

    /// Whether `count` of `n` is what a chance of `share` gives, within six standard deviations. Up to `exempt` of the
    /// packets may be of a kind that this does not happen to.
    fn likely(&mut self, count: u64, n: u64, share: f64, exempt: f64, what: &str) {
        let (mean, spread) = (n as f64 * share, (n as f64 * share * (1.0 - share)).sqrt());
        let range = mean * (1.0 - exempt) - 6.0 * spread..=mean + 6.0 * spread;
        let ok = n > 0 && range.contains(&(count as f64));
        self.check(ok, format!("{count} of {n} packets {what}, {mean:.0} expected"));
    }
}

fn judge(weather: Weather, report: &mut Phase) {
    let PortCounters { packets, lost, trimmed, marked, .. } = report.forward;
    report.check(report.bytes > 0, format!("{} bytes", report.bytes));
    match weather {
        Weather::Withdrawal => return,
        Weather::Calm => {}
        Weather::Loss => {
            report.likely(lost, packets, 0.01, 0.0, "lost");
            let resent = report.retransmitted;
            report.check(resent > 0, format!("{resent} packets sent again for {lost} lost"));
        }
        Weather::Trimming => {
            report.likely(trimmed, packets, 0.1, PROBES, "trimmed");
            let (nacks, resent) = (report.trim_nacks, report.retransmitted);
            report.check(nacks <= report.seen_trimmed && nacks > 0, format!("{nacks} trim NACKs"));
            report.check(resent >= nacks, format!("{resent} packets sent again for {nacks} trim NACKs"));
        }
        Weather::Queue => {
            report.check(marked > 0, format!("{marked} packets marked"));
            let skipped = report.ev_skipped;
            report.check((1..=marked).contains(&skipped), format!("{skipped} EVs skipped for {marked} marks"));
        }
    }
    report.matches(trimmed, report.seen_trimmed, "packets trimmed");
    report.matches(marked, report.seen_marked, "packets marked");
    let accounted = lost + report.forward.dropped + report.arrived;
    let (sent, elsewhere) = (report.sent, report.elsewhere);
    // A kernel queue may overflow on a busy machine; that is a loss like another, but it must stay rare.
    report.check(
        accounted <= sent && elsewhere * 100 <= sent,
        format!("{sent} packets sent = {lost} lost + {} arrived + {elsewhere} elsewhere", report.arrived),
    );
}

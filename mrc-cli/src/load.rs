//! Writes as fast as allowed for a while, and notes over time how much arrived and which paths it took.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::bail;
use mrc_afxdp::device::{DeviceEvent, DeviceStats};
use mrc_core::{ErrorCause, Event};
use mrc_verbs_shim::control::{PathRow, path_tables};
use mrc_verbs_shim::{Completion, QpAddress, Status, WriteWr};
use serde::Serialize;

use crate::content::Content;
use crate::handshake::Control;
use crate::interrupt::Interrupt;
use crate::selector::Paths;
use crate::session::Session;
use crate::silent::{Retired, SilentPath};

/// Probes and switches that a run remembers; more are only counted.
const REMEMBERED: usize = 1_000;

/// Time that messages in flight have to complete when the time of a run is over.
const DRAIN: Duration = Duration::from_secs(2);
/// How often the connection to the peer's program is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// How much to write, and how.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Bytes per message.
    pub size: u32,
    /// Messages in flight per queue pair.
    pub depth: u16,
    /// Messages to write.
    pub messages: u64,
    /// Time to write for.
    pub duration: Option<Duration>,
    /// Offered load of all queue pairs together; as much as fits without.
    pub bits_per_second: Option<u64>,
    /// Round trip without load.
    pub base_rtt: Duration,
    /// Distance of samples.
    pub interval: Option<Duration>,
}

/// What happened since the sample before.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Its end, since the beginning of the run.
    pub ms: f64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// Payload bytes sent on each path, retransmissions included.
    pub path_bytes: Vec<u64>,
}

/// A selector begins to probe alternatives.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// When, since the beginning of the run.
    pub ms: f64,
    /// The path in use.
    pub path: String,
    /// Its round trip.
    pub rtt_us: f64,
}

/// A single-path selector moves.
#[derive(Debug, Clone, Serialize)]
pub struct Switch {
    /// When, since the beginning of the run.
    pub ms: f64,
    /// Path left.
    pub from: String,
    /// Path taken.
    pub to: String,
    /// Time since the first probe of alternatives to `from`, if there was one. Probes more than ten base RTTs apart do
    /// not belong together.
    pub after_probe_ms: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Selector.
    pub selector: &'static str,
    /// Bytes of completed messages.
    pub bytes: u64,
    /// Completed messages.
    pub messages: u64,
    /// How long it took.
    pub seconds: f64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Payload bytes sent on each path, retransmissions included.
    pub path_bytes: Vec<u64>,
    /// Times that alternatives were probed.
    pub path_probes: u64,
    /// Times that a single-path selector moved.
    pub path_switches: u64,
    /// The first probes.
    pub probes: Vec<Probe>,
    /// The first switches.
    pub switches: Vec<Switch>,
    /// Over time.
    pub samples: Vec<Sample>,
    /// Paths by queue pair number, where the selector keeps a load of each: as it had them at the end.
    pub path_table: Vec<(u32, Vec<PathRow>)>,
    /// Paths that were retired and did not answer again before the end.
    pub silent_paths: Vec<SilentPath>,
    /// Why it ended early.
    pub error: Option<String>,
}

/// Queue pairs that are connected to a peer's memory.
pub struct Load<'a> {
    /// This side.
    pub session: &'a mut Session,
    /// The connection to the peer's program, which says at once that it is gone.
    pub control: &'a Control,
    /// The peer's QPs.
    pub remotes: &'a [QpAddress],
    /// All paths.
    pub paths: &'a Paths,
    /// Ends a run before its time.
    pub interrupt: &'a Interrupt,
    /// The pattern of messages, if the peer is to check them.
    pub content: Option<Content>,
    /// Messages posted on each queue pair.
    pub posted: &'a mut [u64],
}

impl std::fmt::Display for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {} at {:.1} ms", self.from, self.to, self.ms)?;
        self.after_probe_ms.map_or(Ok(()), |ms| write!(f, " ({ms:.1} ms after its first probe)"))
    }
}

impl Load<'_> {
    /// Writes on the queue pairs `qps` until `goal` is reached; `tick` hears the time and the completed messages.
    pub fn run(
        &mut self,
        selector: &'static str,
        qps: Range<usize>,
        goal: &Goal,
        tick: &mut dyn FnMut(Duration, u64),
    ) -> anyhow::Result<Run> {
        // Events of what came before are not of this run.
        while self.session.poll_event().is_some() {}
        let mut book = Book::open(selector, self.session.context.stats()?, self.paths, goal.base_rtt);
        let start = Instant::now();
        let (mut posted, mut done, mut error) = (0u64, 0u64, None);
        let mut inflight: BTreeMap<usize, u16> = qps.clone().map(|index| (index, 0)).collect();
        let mut next_sample = goal.interval;
        // Moves to now when the user interrupts: what is in flight ends, and the totals are printed.
        let mut limit = goal.duration;
        let (mut next_glance, mut answers, mut answered) = (GLANCE, 0, Duration::ZERO);
        let mut cause = None;
        loop {
            let elapsed = start.elapsed();
            if limit.is_none_or(|limit| elapsed < limit) && self.interrupt.is_set() {
                limit = Some(elapsed);
            }
            let more = error.is_none() && limit.is_none_or(|limit| elapsed < limit);
            let allowed = goal.messages.min(goal.offered(elapsed));
            if more {
                for (&index, open) in &mut inflight {
                    while posted < allowed && *open < goal.depth && self.post(index, goal.size)? {
                        *open += 1;
                        posted += 1;
                    }
                }
            }
            let mut idle = true;
            while let Some(completion) = self.session.cq.poll() {
                idle = false;
                if let Some(open) = inflight.get_mut(&(completion.wr_id as usize)) {
                    *open -= 1;
                }
                match completion.status {
                    Status::Success => done += 1,
                    Status::Flushed => {}
                    status => error = Some(explain(&completion, status)),
                }
            }
            while let Some(event) = self.session.poll_event() {
                cause = cause.or(cause_of(&event));
                book.note(&event, self.paths, elapsed);
            }
            if self.session.cq.is_closed() {
                bail!("the device's progress thread ended");
            }
            tick(elapsed, done);
            if next_sample.is_some_and(|at| elapsed >= at) {
                book.sample(&self.session.context.stats()?, done * u64::from(goal.size), self.paths);
                next_sample = next_sample.zip(goal.interval).map(|(at, step)| at + step);
            }
            let open: u64 = inflight.values().map(|&open| u64::from(open)).sum();
            if (!more || posted >= goal.messages) && open == 0 {
                break;
            }
            if elapsed >= next_glance {
                next_glance = elapsed + GLANCE;
                let stats = self.session.context.stats()?.engine;
                if answers != stats.rx_sack + stats.rx_ack {
                    (answers, answered) = (stats.rx_sack + stats.rx_ack, elapsed);
                }
                if let Some(why) = self.control.broken() {
                    error = Some(format!("peer vanished: {why}; {open} messages did not complete"));
                    break;
                }
            }
            // What is in flight ends as long as answers come. Without any, queue pairs fail by themselves, but later than a
            // run of a set time may end.
            if limit.is_some_and(|limit| elapsed > limit.max(answered) + DRAIN) {
                error.get_or_insert(format!(
                    "{open} messages did not complete, and no answer came for {} s: no plane leads to the peer, or the peer is stopped; \
                     see `mrc doctor`, and `mrc lab status` on a lab fabric",
                    (elapsed - answered).as_secs()
                ));
                break;
            }
            match (idle, goal.bits_per_second) {
                // With a limit there is time to leave the core to others.
                (true, Some(_)) => std::thread::sleep(Duration::from_micros(100)),
                (true, None) => std::thread::yield_now(),
                _ => {}
            }
        }
        while let Some(event) = self.session.poll_event() {
            cause = cause.or(cause_of(&event));
        }
        let error = error.map(|error| cause.map_or(error.clone(), |cause| format!("{error}: {}", cause.text())));
        let own: Vec<u32> = qps.map(|index| self.session.address(index).qpn.value()).collect();
        let mut tables = path_tables(self.session.context.device())?;
        tables.retain(|(qpn, _)| own.contains(qpn));
        let run = book.close(&self.session.context.stats()?, done, start.elapsed(), goal, error, self.paths);
        Ok(Run { path_table: tables, ..run })
    }

    /// Posts the next message of a queue pair; whether there was room.
    fn post(&mut self, index: usize, size: u32) -> anyhow::Result<bool> {
        let remote = &self.remotes[index];
        let number = self.posted[index];
        let offset = match self.content {
            Some(content) => {
                content.prepare(self.session.mr.memory(), index, number)?;
                content.offset(index, number)
            }
            None => index as u64 * u64::from(size),
        };
        let wr = WriteWr {
            wr_id: index as u64,
            mr: &self.session.mr,
            offset,
            len: size,
            remote_va: remote.va + offset,
            rkey: remote.rkey,
            signaled: true,
        };
        let posted = self.session.cq.post_write(&self.session.qps[index], &wr);
        self.posted[index] += u64::from(posted);
        Ok(posted)
    }
}

/// Why the engine gave up a queue pair, if this event says so.
fn cause_of(event: &DeviceEvent) -> Option<ErrorCause> {
    match *event {
        DeviceEvent::Engine(Event::QpError { cause, .. }) if cause != ErrorCause::Application => Some(cause),
        _ => None,
    }
}

impl Goal {
    /// Messages that the offered load has produced after `elapsed`.
    fn offered(&self, elapsed: Duration) -> u64 {
        self.bits_per_second.map_or(u64::MAX, |rate| {
            let bytes = u128::from(rate) / 8 * elapsed.as_nanos() / 1_000_000_000;
            (bytes / u128::from(self.size)) as u64 + 1
        })
    }
}

/// What a run has seen so far.
struct Book {
    run: Run,
    start: DeviceStats,
    /// Time, goodput bytes and path bytes at the last sample.
    last: (f64, u64, Vec<u64>),
    /// First and last of the probes that followed each other, by QP number.
    probing: BTreeMap<u32, (f64, f64)>,
    calm_ms: f64,
    retired: Retired,
}

impl Book {
    fn open(selector: &'static str, start: DeviceStats, paths: &Paths, base_rtt: Duration) -> Self {
        let run = Run {
            selector,
            bytes: 0,
            messages: 0,
            seconds: 0.0,
            gbit_per_s: 0.0,
            retransmitted: 0,
            path_bytes: Vec::new(),
            path_probes: 0,
            path_switches: 0,
            probes: Vec::new(),
            switches: Vec::new(),
            samples: Vec::new(),
            path_table: Vec::new(),
            silent_paths: Vec::new(),
            error: None,
        };
        let last = (0.0, 0, paths.sort(&start.paths));
        let calm_ms = 10.0 * base_rtt.as_secs_f64() * 1e3;
        Self { run, start, last, probing: BTreeMap::new(), calm_ms, retired: Retired::default() }
    }

    fn ms(&self, at: mrc_core::Instant) -> f64 {
        at.since(self.start.at) as f64 / 1e6
    }

    fn note(&mut self, event: &DeviceEvent, paths: &Paths, elapsed: Duration) {
        match *event {
            DeviceEvent::Engine(Event::PathProbe { qp, path, rtt_ns, at }) => {
                let ms = self.ms(at);
                self.run.path_probes += 1;
                let (first, last) = self.probing.entry(qp.value()).or_insert((ms, ms));
                if ms - *last > self.calm_ms {
                    *first = ms;
                }
                *last = ms;
                if self.run.probes.len() < REMEMBERED {
                    self.run.probes.push(Probe { ms, path: paths.name(path), rtt_us: f64::from(rtt_ns) / 1e3 });
                }
            }
            DeviceEvent::Engine(Event::PathSwitch { qp, from, to, at }) => {
                let ms = self.ms(at);
                self.run.path_switches += 1;
                let after_probe_ms = self.probing.remove(&qp.value()).map(|(first, _)| ms - first);
                if self.run.switches.len() < REMEMBERED {
                    let (from, to) = (paths.name(from), paths.name(to));
                    self.run.switches.push(Switch { ms, from, to, after_probe_ms });
                }
            }
            DeviceEvent::Engine(Event::Ev { qp, ref transition }) => {
                self.retired.note(elapsed.as_secs_f64() * 1e3, qp, transition);
            }
            _ => {}
        }
    }

    fn sample(&mut self, stats: &DeviceStats, bytes: u64, paths: &Paths) {
        let (ms, total) = (self.ms(stats.at), paths.sort(&stats.paths));
        let (last_ms, last_bytes, last_total) = std::mem::replace(&mut self.last, (ms, bytes, total.clone()));
        self.run.samples.push(Sample {
            ms,
            gbit_per_s: (bytes - last_bytes) as f64 * 8.0 / (ms - last_ms).max(1e-6) / 1e6,
            path_bytes: total.iter().zip(&last_total).map(|(now, then)| now - then).collect(),
        });
    }

    fn close(
        mut self,
        stats: &DeviceStats,
        messages: u64,
        elapsed: Duration,
        goal: &Goal,
        error: Option<String>,
        paths: &Paths,
    ) -> Run {
        let bytes = messages * u64::from(goal.size);
        // What a sample saw a moment ago needs none of its own.
        if goal.interval.is_some_and(|step| self.ms(stats.at) - self.last.0 > step.as_secs_f64() * 100.0) {
            self.sample(stats, bytes, paths);
        }
        let (now, then) = (paths.sort(&stats.paths), paths.sort(&self.start.paths));
        let seconds = elapsed.as_secs_f64();
        Run {
            bytes,
            messages,
            seconds,
            gbit_per_s: bytes as f64 * 8.0 / seconds / 1e9,
            retransmitted: stats.engine.retransmitted - self.start.engine.retransmitted,
            path_bytes: now.iter().zip(&then).map(|(now, then)| now - then).collect(),
            silent_paths: self.retired.silent(paths),
            error,
            ..self.run
        }
    }
}

/// A failed completion, in words.
fn explain(completion: &Completion, status: Status) -> String {
    let path = completion.last_path.map_or_else(
        || "no packet was sent".to_owned(),
        |(ev, port)| format!("last EV {:#x} on plane {}", ev.0, port.plane()),
    );
    format!(
        "{}: QP {:#08x}, first PSN {}, {path}, {} retries, {}",
        status.text(),
        completion.qp.value(),
        completion.first_psn.value(),
        completion.retries,
        completion.last_heard()
    )
}

#[cfg(test)]
mod tests {
    use mrc_afxdp::device::PathBytes;
    use mrc_core::path::{EvEntry, compact_profile};
    use mrc_wire::{Ev, PortNum, Qpn};

    use super::*;

    const QP: Qpn = Qpn::new(5);

    fn goal(bits_per_second: Option<u64>) -> Goal {
        Goal {
            size: 1_000,
            depth: 1,
            messages: 10,
            duration: None,
            bits_per_second,
            base_rtt: Duration::from_millis(1),
            interval: Some(Duration::from_millis(100)),
        }
    }

    fn at(ms: u64) -> mrc_core::Instant {
        mrc_core::Instant::from_nanos(ms * 1_000_000)
    }

    fn stats(ms: u64, bytes: u64) -> DeviceStats {
        let path = PathBytes { port: PortNum::from_plane(0), ev: Ev(1), bytes };
        DeviceStats {
            at: at(ms),
            engine: mrc_core::Stats::default(),
            ports: Vec::new(),
            up: mrc_core::PortMask::NONE,
            paths: vec![path],
        }
    }

    fn paths() -> Paths {
        let mut entries = vec![EvEntry::new(Ev(0), PortNum::from_plane(0)); 2];
        compact_profile(&mut entries, 1, 2, 8).unwrap();
        Paths::new(entries)
    }

    #[test]
    fn the_offered_load_grows_with_time() {
        let limited = goal(Some(8_000_000));
        assert_eq!(limited.offered(Duration::ZERO), 1);
        assert_eq!(limited.offered(Duration::from_millis(10)), 11);
        assert_eq!(goal(None).offered(Duration::ZERO), u64::MAX);
    }

    #[test]
    fn samples_are_what_happened_since_the_one_before() {
        let paths = paths();
        let mut book = Book::open("spray", stats(1_000, 500), &paths, Duration::from_millis(1));
        book.sample(&stats(1_100, 1_500), 1_000, &paths);
        let run = book.close(&stats(1_200, 4_500), 4, Duration::from_millis(200), &goal(None), None, &paths);
        let rows: Vec<(f64, f64, &[u64])> =
            run.samples.iter().map(|s| (s.ms, s.gbit_per_s, s.path_bytes.as_slice())).collect();
        assert_eq!(rows, [(100.0, 0.000_08, &[0, 1_000][..]), (200.0, 0.000_24, &[0, 3_000])]);
        assert_eq!((run.bytes, run.path_bytes), (4_000, vec![0, 4_000]));
        // A last sample right after another one says nothing.
        let mut book = Book::open("spray", stats(1_000, 500), &paths, Duration::from_millis(1));
        book.sample(&stats(1_100, 1_500), 1_000, &paths);
        let run = book.close(&stats(1_105, 1_500), 1, Duration::from_millis(105), &goal(None), None, &paths);
        assert_eq!(run.samples.len(), 1);
    }

    #[test]
    fn a_switch_is_dated_from_the_first_probe_that_led_to_it() {
        let paths = paths();
        let probe = |ms| DeviceEvent::Engine(Event::PathProbe { qp: QP, path: 0, rtt_ns: 3_000_000, at: at(ms) });
        let switch = |from, to, ms| DeviceEvent::Engine(Event::PathSwitch { qp: QP, from, to, at: at(ms) });
        let mut book = Book::open("hopper", stats(100, 0), &paths, Duration::from_millis(1));
        // A probe long ago belongs to another trouble.
        for event in [probe(110), probe(150), probe(155), switch(0, 1, 158), switch(1, 0, 170)] {
            book.note(&event, &paths, Duration::ZERO);
        }
        let seen: Vec<_> = book.run.switches.iter().map(|s| (s.ms, s.from.as_str(), s.after_probe_ms)).collect();
        assert_eq!(seen, [(58.0, "p0u0", Some(8.0)), (70.0, "p0u1", None)]);
        assert_eq!((book.run.path_probes, book.run.path_switches), (3, 2));
        assert_eq!(book.run.switches[0].to_string(), "p0u0 to p0u1 at 58.0 ms (8.0 ms after its first probe)");
    }
}

//! What a run saw over time: samples of goodput and paths, and what selectors did.

use std::collections::BTreeMap;
use std::time::Duration;

use mrc_afxdp::device::{DeviceEvent, DeviceStats};
use mrc_core::Event;

use super::{Goal, Probe, Run, Sample, Switch};
use crate::selector::Paths;
use crate::silent::Retired;

/// Probes and switches that a run remembers; more are only counted.
const REMEMBERED: usize = 1_000;

/// What a run has seen so far.
pub struct Book {
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
    pub fn open(selector: &'static str, start: DeviceStats, paths: &Paths, base_rtt: Duration) -> Self {
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
            unsteady_paths: Vec::new(),
            error: None,
        };
        let last = (0.0, 0, paths.sort(&start.paths));
        let calm_ms = 10.0 * base_rtt.as_secs_f64() * 1e3;
        Self { run, start, last, probing: BTreeMap::new(), calm_ms, retired: Retired::default() }
    }

    fn ms(&self, at: mrc_core::Instant) -> f64 {
        at.since(self.start.at) as f64 / 1e6
    }

    pub fn note(&mut self, event: &DeviceEvent, paths: &Paths, elapsed: Duration) {
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

    pub fn sample(&mut self, stats: &DeviceStats, bytes: u64, paths: &Paths) {
        let (ms, total) = (self.ms(stats.at), paths.sort(&stats.paths));
        let (last_ms, last_bytes, last_total) = std::mem::replace(&mut self.last, (ms, bytes, total.clone()));
        self.run.samples.push(Sample {
            ms,
            gbit_per_s: (bytes - last_bytes) as f64 * 8.0 / (ms - last_ms).max(1e-6) / 1e6,
            path_bytes: total.iter().zip(&last_total).map(|(now, then)| now - then).collect(),
        });
    }

    pub fn close(
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
            unsteady_paths: self.retired.unsteady(paths),
            error,
            ..self.run
        }
    }
}

#[cfg(test)]
mod tests {
    use mrc_afxdp::device::PathBytes;
    use mrc_core::path::{EvEntry, compact_profile};
    use mrc_wire::{Ev, PortNum, Qpn};

    use super::*;

    const QP: Qpn = Qpn::new(5);

    fn goal() -> Goal {
        Goal {
            size: 1_000,
            depth: 1,
            messages: 10,
            duration: None,
            bits_per_second: None,
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
    fn samples_are_what_happened_since_the_one_before() {
        let paths = paths();
        let mut book = Book::open("spray", stats(1_000, 500), &paths, Duration::from_millis(1));
        book.sample(&stats(1_100, 1_500), 1_000, &paths);
        let run = book.close(&stats(1_200, 4_500), 4, Duration::from_millis(200), &goal(), None, &paths);
        let rows: Vec<(f64, f64, &[u64])> =
            run.samples.iter().map(|s| (s.ms, s.gbit_per_s, s.path_bytes.as_slice())).collect();
        assert_eq!(rows, [(100.0, 0.000_08, &[0, 1_000][..]), (200.0, 0.000_24, &[0, 3_000])]);
        assert_eq!((run.bytes, run.path_bytes), (4_000, vec![0, 4_000]));
        // A last sample right after another one says nothing.
        let mut book = Book::open("spray", stats(1_000, 500), &paths, Duration::from_millis(1));
        book.sample(&stats(1_100, 1_500), 1_000, &paths);
        let run = book.close(&stats(1_105, 1_500), 1, Duration::from_millis(105), &goal(), None, &paths);
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

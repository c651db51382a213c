//! A model of a fabric at the level of probes. It has no packets, queues or switches: it only decides what happens to each
//! probe.
//!
//! Time is counted in probe intervals, and agents follow their [`Plan`]s. A probe is lost
//! * at a component that is faulty,
//! * anywhere with probability [`ModelConfig::noise`],
//! * in the class of acknowledgements, where there is incast or congestion, with probability
//!   [`ModelConfig::congested_loss`],
//! * if it asks a host that is paused.
//!
//! A paused host sends nothing and judges nothing. When it continues it tells the collector, which then excuses requests
//! to it. A port counts as congested after the first data class probe over it comes back trimmed. [`wire`] runs real
//! agents with real frames through the same fabric.

use std::collections::BTreeMap;

use crate::locate::{Counts, Matrix, PathId};
use crate::plan::{PathSpec, Plan, PlanConfig, Route};
use crate::rng::Rng;
use crate::topology::{Component, Element, Fabric, HostId};

pub mod wire;

/// Knobs of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelConfig {
    /// Losses per probe without a cause.
    pub noise: f64,
    /// Losses per control class probe at a congested port. The packet simulator, whose switches serve this class first, loses none
    /// of a million; three times the upper bound of that (95 %) is assumed.
    pub congested_loss: f64,
    /// Share of data class probes that a congested port trims. A probe is short and often fits where a packet of data does
    /// not: `mrc mapper score --packets` counts 6 to 7 % behind a link that trims three packets of five.
    pub trimmed: f64,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { noise: 1e-6, congested_loss: 1e-5, trimmed: 0.05 }
    }
}

/// What the fabric goes through besides faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weather {
    /// Nothing.
    Idle,
    /// Hosts are paused now and then, for 5 to 300 ms, each once in ten minutes.
    Load,
    /// Also, 3 % of the host ports see incast at any time, in bursts of 20 intervals on average.
    Incast,
    /// Also, 1 % of the uplinks are congested and trim.
    Trimming,
}

/// How a faulty component treats packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Behaviour {
    /// Loses everything.
    Down,
    /// Loses this share.
    Lossy(f64),
    /// Loses everything for some intervals out of every period.
    Flapping {
        /// Intervals of an outage.
        outage: u32,
        /// Intervals from outage to outage.
        period: u32,
    },
}

/// A fault, from interval 0 on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// What is faulty.
    pub component: Component,
    /// How.
    pub behaviour: Behaviour,
}

impl Fault {
    /// Loss per traversal in an interval.
    fn loss(&self, interval: i64) -> f64 {
        match self.behaviour {
            _ if interval < 0 => 0.0,
            Behaviour::Down => 1.0,
            Behaviour::Lossy(rate) => rate,
            Behaviour::Flapping { outage, period } => {
                if interval % i64::from(period.max(1)) < i64::from(outage) {
                    1.0
                } else {
                    0.0
                }
            }
        }
    }

    /// Weight `-ln(1 - loss)` for the question whether it can be identified.
    #[must_use]
    pub fn weight(&self) -> f64 {
        match self.behaviour {
            Behaviour::Lossy(rate) => -(-rate).ln_1p(),
            _ => 14.0,
        }
    }
}

/// A path of the model.
#[derive(Debug, Clone, Copy)]
struct ModelPath {
    host: HostId,
    spec: PathSpec,
    every: u32,
    at: u32,
}

/// A stretch of time in which something happens to a host or an element, in intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// First interval.
    pub from: i64,
    /// First interval behind it.
    pub until: i64,
}

impl Episode {
    fn overlap(&self, from: i64, until: i64) -> i64 {
        (self.until.min(until) - self.from.max(from)).max(0)
    }
}

/// The model of a fabric.
#[derive(Debug)]
pub struct ProbeModel {
    matrix: Matrix,
    paths: Vec<ModelPath>,
    /// First path of each host; one more at the end.
    first: Vec<u32>,
    /// Probes per interval over all paths.
    rate: f64,
    config: ModelConfig,
}

/// What happened between two intervals.
#[derive(Debug, Default)]
pub struct Run {
    /// Lost probes by path and interval, in the order of time.
    lost: Vec<(PathId, i64)>,
    paused: Vec<(HostId, Episode)>,
    /// Congested elements, known from `from` on.
    congested: BTreeMap<Element, Vec<Episode>>,
    /// The same from their beginning, whether they were noticed or not.
    congestion: Vec<(Element, Episode)>,
}

impl ProbeModel {
    /// A fabric all of whose agents run the same plan configuration.
    #[must_use]
    pub fn new(fabric: Fabric, plan: &PlanConfig, config: ModelConfig) -> Self {
        let (mut paths, mut first) = (Vec::new(), Vec::new());
        for host in 0..fabric.hosts {
            first.push(paths.len() as u32);
            let mates: Vec<HostId> = fabric.hosts_of(fabric.leaf_of(host)).collect();
            let plan = Plan::new(&fabric, host, &mates, plan);
            for (n, spec) in plan.paths().iter().enumerate() {
                let (every, at) = plan.turn(n);
                paths.push(ModelPath { host, spec: *spec, every, at });
            }
        }
        first.push(paths.len() as u32);
        let rows = paths.iter().map(|path| (path.spec.elements(&fabric, path.host), 1.0 / f64::from(path.every)));
        let matrix = Matrix::new(fabric, rows);
        let rate = paths.iter().map(|path| 1.0 / f64::from(path.every)).sum();
        Self { matrix, paths, first, rate, config }
    }

    /// What its paths pass.
    #[must_use]
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Who probes a path, and which.
    #[must_use]
    pub fn path(&self, path: PathId) -> (HostId, PathSpec) {
        let path = &self.paths[path as usize];
        (path.host, path.spec)
    }

    /// Control class probes per interval, all agents together.
    #[must_use]
    pub fn probes_per_interval(&self) -> f64 {
        self.rate
    }

    /// Lets the intervals `from..until` pass. A fault begins at interval 0.
    pub(crate) fn run(&self, rng: &mut Rng, weather: Weather, faults: &[Fault], from: i64, until: i64) -> Run {
        let mut run = Run::default();
        self.weather(rng, weather, from, until, &mut run);
        let span = (until - from).max(0) as u64;
        for _ in 0..rng.binomial((self.rate * span as f64) as u64, self.config.noise) {
            let path = rng.below(self.paths.len() as u64) as usize;
            let at = from + rng.below(span) as i64;
            if self.due(path, at) {
                run.lost.push((path as PathId, at));
            }
        }
        self.faults(rng, faults, from.max(0), until, &mut run);
        run.lost.sort_unstable_by_key(|(path, at)| (*at, *path));
        run
    }

    fn due(&self, path: usize, at: i64) -> bool {
        let path = &self.paths[path];
        at.rem_euclid(i64::from(path.every)) == i64::from(path.at)
    }

    /// Due intervals of a path in a stretch.
    fn turns(&self, path: PathId, from: i64, until: i64) -> impl Iterator<Item = i64> + use<> {
        let path = &self.paths[path as usize];
        let every = i64::from(path.every);
        let first = from + (i64::from(path.at) - from).rem_euclid(every);
        (first..until).step_by(path.every as usize)
    }

    fn faults(&self, rng: &mut Rng, faults: &[Fault], from: i64, until: i64, run: &mut Run) {
        let mut affected: BTreeMap<PathId, Vec<(usize, u32)>> = BTreeMap::new();
        for (n, fault) in faults.iter().enumerate() {
            for (path, times) in crate::locate::footprint(&self.matrix, fault.component) {
                affected.entry(path).or_default().push((n, times));
            }
        }
        for (path, passed) in affected {
            let host = self.paths[path as usize].host;
            let naps: Vec<Episode> = run.paused.iter().filter(|(h, _)| *h == host).map(|(_, nap)| *nap).collect();
            for at in self.turns(path, from, until) {
                if naps.iter().any(|nap| (nap.from..nap.until).contains(&at)) {
                    continue;
                }
                let success: f64 =
                    passed.iter().map(|(n, times)| (1.0 - faults[*n].loss(at)).powi(*times as i32)).product();
                if success < 1.0 && !rng.chance(success) {
                    run.lost.push((path, at));
                }
            }
        }
    }

    fn weather(&self, rng: &mut Rng, weather: Weather, from: i64, until: i64, run: &mut Run) {
        let fabric = *self.matrix.fabric();
        if weather >= Weather::Load {
            for host in 0..fabric.hosts {
                let mut at = from as f64 + rng.exponential(600_000.0);
                while at < until as f64 {
                    let length = rng.log_uniform(5.0, 300.0);
                    self.pause(host, Episode { from: at as i64, until: (at + length) as i64 }, run, until);
                    at += length + rng.exponential(600_000.0);
                }
            }
        }
        let busy = |share: f64, element: Element, rng: &mut Rng, run: &mut Run| {
            let (length, gap) = (20.0, 20.0 / share);
            let mut at = from as f64 + rng.exponential(gap);
            while at < until as f64 {
                let long = rng.exponential(length).max(1.0);
                self.congest(element, Episode { from: at as i64, until: ((at + long) as i64).min(until) }, rng, run);
                at += long + rng.exponential(gap);
            }
        };
        if weather >= Weather::Incast {
            for plane in 0..fabric.planes {
                for host in 0..fabric.hosts {
                    busy(0.03, fabric.host_link(plane, host, true), rng, run);
                }
            }
        }
        if weather >= Weather::Trimming {
            for plane in 0..fabric.planes {
                for (leaf, spine) in (0..fabric.leaves).flat_map(|leaf| (0..fabric.spines).map(move |s| (leaf, s))) {
                    busy(0.01, fabric.uplink(plane, leaf, spine, rng.chance(0.5)), rng, run);
                }
            }
        }
    }

    /// A host that sleeps: requests to it are lost.
    fn pause(&self, host: HostId, episode: Episode, run: &mut Run, until: i64) {
        run.paused.push((host, episode));
        for &(path, _) in self.matrix.through(self.matrix.fabric().host(host)) {
            for at in self.turns(path, episode.from, episode.until.min(until)) {
                if !run.is_paused(self.paths[path as usize].host, at) {
                    run.lost.push((path, at));
                }
            }
        }
    }

    /// A congested port: some control class probes are lost; where a host's own data probes pass it, it is noticed.
    fn congest(&self, element: Element, episode: Episode, rng: &mut Rng, run: &mut Run) {
        let mut known = None;
        run.congestion.push((element, episode));
        for &(path, _) in self.matrix.through(element) {
            let model = &self.paths[path as usize];
            let span = (episode.until - episode.from).max(0) as u64;
            for _ in 0..rng.binomial(span, self.config.congested_loss) {
                let at = episode.from + rng.below(span) as i64;
                if self.due(path as usize, at) {
                    run.lost.push((path, at));
                }
            }
            // A host link is known by the data probes of its own T0 path, an uplink by those of its owners: one in four
            // intervals of each path.
            if matches!(model.spec.route, Route::T0 | Route::T1 { .. }) {
                let mut probes = (episode.from..episode.until).filter(|at| (at + i64::from(path)) % 4 == 0);
                let trimmed = probes.find(|_| rng.chance(self.config.trimmed));
                known = known.into_iter().chain(trimmed).min();
            }
        }
        if let Some(from) = known {
            run.congested.entry(element).or_default().push(Episode { from, until: episode.until });
        }
    }

    /// Whether the collector knows, at `now`, that the probe asked a host that was paused: that host has told it.
    fn excused(&self, run: &Run, path: PathId, at: i64, now: i64) -> bool {
        match self.paths[path as usize].spec.route {
            Route::Pair { target, .. } => run.paused.iter().any(|(host, episode)| {
                *host == target && (episode.from..episode.until).contains(&at) && episode.until <= now
            }),
            _ => false,
        }
    }

    fn is_congested(&self, run: &Run, path: PathId, at: i64) -> bool {
        let episodes = self.matrix.passes(path).iter().filter_map(|(element, _)| run.congested.get(element));
        episodes.flatten().any(|episode| (episode.from..episode.until).contains(&at))
    }

    /// What the collector has in hand at the end of the window `from..until`.
    #[must_use]
    pub fn counts(&self, run: &Run, from: i64, until: i64) -> Counts {
        let mut counts = Counts { window: (until - from) as f64, ..Counts::default() };
        for (path, at) in run.lost_between(from, until) {
            if !self.excused(run, *path, *at, until) {
                *counts.lost.entry(*path).or_default() += 1;
                if self.is_congested(run, *path, *at) {
                    *counts.lost_congested.entry(*path).or_default() += 1;
                }
            }
        }
        for (host, episode) in &run.paused {
            let asleep = episode.overlap(from, until) as f64;
            if asleep == 0.0 {
                continue;
            }
            let own = self.first[usize::from(*host)]..self.first[usize::from(*host) + 1];
            let asked = self.matrix.through(self.matrix.fabric().host(*host)).iter().map(|(path, _)| *path);
            for path in own.chain(asked.filter(|_| episode.until <= until)) {
                *counts.unjudged.entry(path).or_default() += asleep * self.matrix.rate(path);
            }
        }
        counts
    }
}

impl Run {
    /// Pauses of hosts.
    #[must_use]
    pub fn pauses(&self) -> &[(HostId, Episode)] {
        &self.paused
    }

    /// Congestion of directed links.
    #[must_use]
    pub fn congestion(&self) -> &[(Element, Episode)] {
        &self.congestion
    }

    /// Lost probes by path and interval, in the order of time.
    #[must_use]
    pub fn lost(&self) -> &[(PathId, i64)] {
        &self.lost
    }

    fn is_paused(&self, host: HostId, at: i64) -> bool {
        self.paused.iter().any(|(paused, episode)| *paused == host && (episode.from..episode.until).contains(&at))
    }

    /// Lost probes in a window.
    #[must_use]
    pub fn lost_in(&self, from: i64, until: i64) -> usize {
        self.lost_between(from, until).len()
    }

    fn lost_between(&self, from: i64, until: i64) -> &[(PathId, i64)] {
        let range = self.lost.partition_point(|(_, at)| *at < from)..self.lost.partition_point(|(_, at)| *at < until);
        &self.lost[range]
    }
}

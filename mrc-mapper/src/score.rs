//! Compares the algorithms on random faults, and on days without a fault.
//!
//! A case is a fabric in [`ProbeModel`] with noise, congestion and one or two random faults. All algorithms read the same
//! counts at the deadline, which is the latest of: 5 intervals after a component went down, `3 / p` intervals after one
//! began to lose the share `p`, three periods after one began to flap. Our algorithm also runs at every checkpoint
//! before the deadline. The score then tells when it found each component, and whether it accused a healthy one meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::locate::{self, Finding, Identify, Localiser, Ours};
use crate::model::{Behaviour, Fault, ModelConfig, ProbeModel, Run, Weather};
use crate::plan::PlanConfig;
use crate::rng::{Rng, mix};
use crate::topology::{Component, Direction, Fabric};

/// Probe intervals in which something that is down must be found.
pub const DOWN_INTERVALS: i64 = 5;
/// Windows that the localiser looks back: powers of four.
const WINDOWS: [i64; 7] = [4, 16, 64, 256, 1024, 4096, 16384];

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreConfig {
    /// Faulty cases.
    pub faults: u32,
    /// Milliseconds of virtual time without a fault; an interval is one.
    pub healthy_ms: u64,
    /// Seed of everything.
    pub seed: u64,
}

/// Fabrics that cases are drawn from: planes, T0, T1, hosts.
pub const FABRICS: [Fabric; 5] = [
    Fabric { planes: 4, leaves: 8, spines: 4, hosts: 64 },
    Fabric { planes: 8, leaves: 8, spines: 8, hosts: 128 },
    Fabric { planes: 4, leaves: 16, spines: 16, hosts: 256 },
    Fabric { planes: 4, leaves: 32, spines: 16, hosts: 512 },
    Fabric { planes: 4, leaves: 32, spines: 32, hosts: 1024 },
];

/// Kinds of faults, as the table calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// A link, both directions.
    LinkDown,
    /// A link loses 0.1 to 20 % in both directions.
    LinkLossy,
    /// One direction of a link is down.
    OneWayDown,
    /// One direction of a link loses 0.1 to 20 %.
    OneWayLossy,
    /// A link flaps.
    LinkFlapping,
    /// A T1 forwards nothing.
    SpineSilent,
    /// A T1 loses 0.1 to 20 %.
    SpineLossy,
    /// A T0 forwards nothing.
    LeafSilent,
    /// A T0 loses 0.1 to 20 %.
    LeafLossy,
    /// A plane forwards nothing.
    PlaneSilent,
    /// Two of the above at once.
    Two,
}

const SINGLE: [Case; 10] = [
    Case::LinkDown,
    Case::LinkLossy,
    Case::OneWayDown,
    Case::OneWayLossy,
    Case::LinkFlapping,
    Case::SpineSilent,
    Case::SpineLossy,
    Case::LeafSilent,
    Case::LeafLossy,
    Case::PlaneSilent,
];

/// Sums of an algorithm over cases.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Tally {
    /// Cases.
    pub cases: u32,
    /// Components that were faulty.
    pub faulty: u32,
    /// Components reported.
    pub reported: u32,
    /// Of these, faulty, direction included.
    pub right: u32,
    /// Of these, at a faulty place, the direction left aside.
    pub right_place: u32,
    /// Cases in which exactly the faulty components were reported, direction included.
    pub exact: u32,
    /// The same with the direction left aside.
    pub exact_place: u32,
}

impl Tally {
    fn add(&mut self, truth: &BTreeSet<Component>, found: &[Finding]) {
        let reported: BTreeSet<Component> =
            found.iter().map(|f| f.component).filter(|c| !matches!(c, Component::Host(_))).collect();
        let place = |set: &BTreeSet<Component>| -> BTreeSet<Component> {
            set.iter().map(|component| component.with_direction(Direction::Both)).collect()
        };
        let (places, truths) = (place(&reported), place(truth));
        self.cases += 1;
        self.faulty += truth.len() as u32;
        self.reported += reported.len() as u32;
        self.right += reported.intersection(truth).count() as u32;
        self.right_place += places.intersection(&truths).count() as u32;
        self.exact += u32::from(reported == *truth);
        self.exact_place += u32::from(places == truths);
    }

    fn merge(&mut self, other: &Self) {
        self.cases += other.cases;
        self.faulty += other.faulty;
        self.reported += other.reported;
        self.right += other.right;
        self.right_place += other.right_place;
        self.exact += other.exact;
        self.exact_place += other.exact_place;
    }

    /// Share of the reported components that are faulty.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.right, self.reported)
    }

    /// Share of the faulty components that are reported.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.right, self.faulty)
    }

    /// Share of the cases in which exactly the faulty components are reported.
    #[must_use]
    pub fn exactness(&self) -> f64 {
        share(self.exact, self.cases)
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 1.0 } else { f64::from(part) / f64::from(whole) }
}

/// When ours found the components of a kind of cases.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Times {
    /// Components.
    pub components: u32,
    /// Found within the limit: 5 intervals, or `3 / p`.
    pub in_time: u32,
    /// Median time over limit.
    pub median_of_limit: f64,
    /// Nine tenths were found by this share of the limit.
    pub p90_of_limit: f64,
    #[serde(skip)]
    shares: Vec<f64>,
}

/// A case that ours got wrong, so that it can be looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Miss {
    /// Number of the case.
    pub case: u32,
    /// Hosts of the fabric.
    pub hosts: u16,
    /// Weather.
    pub weather: Weather,
    /// What was faulty.
    pub faulty: Vec<String>,
    /// What ours reported.
    pub reported: Vec<Finding>,
}

/// The fault-free run.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Healthy {
    /// Milliseconds of virtual time.
    pub ms: u64,
    /// Probes of the class of acknowledgements.
    pub probes: u64,
    /// Of these, lost: to noise, congestion and paused hosts.
    pub lost: u64,
    /// Windows that the localiser looked at.
    pub windows: u64,
    /// Paused hosts that were recognised as such.
    pub hosts: u64,
    /// Components of the fabric that were reported. Each is wrong.
    pub reports: u64,
    /// Of these, those that a policy could act on.
    pub denials: u64,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Seed that repeats it.
    pub seed: u64,
    /// Identifiable cases, by algorithm, ours first.
    pub algorithms: Vec<(&'static str, Tally)>,
    /// Ours by kind of case, identifiable ones.
    pub cases: BTreeMap<Case, Tally>,
    /// When ours found what was faulty.
    pub times: BTreeMap<Case, Times>,
    /// Components that ours accused wrongly at a checkpoint before the deadline, without listing an alternative.
    pub accused_early: u32,
    /// Cases that no probe can tell from others, and those in which a component is hidden, with ours on them.
    pub not_identifiable: BTreeMap<Identify, Tally>,
    /// Identifiable cases that ours got wrong.
    pub misses: Vec<Miss>,
    /// The run without a fault.
    pub healthy: Option<Healthy>,
}

impl Report {
    /// Whether ours reaches the goals: 99 % precision, 99 % recall, 98 % exact, no false report in the run without fault.
    #[must_use]
    pub fn passed(&self) -> bool {
        let healthy = self.healthy.is_none_or(|healthy| healthy.reports == 0);
        healthy
            && self
                .algorithms
                .first()
                .is_none_or(|(_, ours)| ours.precision() >= 0.99 && ours.recall() >= 0.99 && ours.exactness() >= 0.98)
    }
}

/// Runs everything. After each case and each [`BLOCK`] of the time without a fault, `progress` hears how many cases are done and
/// says whether to go on. Otherwise the report is of what was done.
#[must_use]
pub fn run(config: &ScoreConfig, mut progress: impl FnMut(u32) -> bool) -> Report {
    let models = FABRICS.map(|fabric| ProbeModel::new(fabric, &PlanConfig::default(), ModelConfig::default()));
    let algorithms = locate::all();
    let mut report = Report {
        seed: config.seed,
        algorithms: algorithms.iter().map(|algorithm| (algorithm.name(), Tally::default())).collect(),
        cases: BTreeMap::new(),
        times: BTreeMap::new(),
        accused_early: 0,
        not_identifiable: BTreeMap::new(),
        misses: Vec::new(),
        healthy: None,
    };
    let (mut done, mut goes_on) = (0, true);
    while goes_on && done < config.faults {
        let case = done;
        // Mixed: what a generator adds with each draw is the same constant.
        let mut rng = Rng::new(mix(config.seed ^ (u64::from(case) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let model = &models[rng.below(models.len() as u64) as usize];
        one_case(case, model, &algorithms, &mut rng, &mut report);
        done += 1;
        goes_on = progress(done);
    }
    for times in report.times.values_mut() {
        times.shares.sort_by(f64::total_cmp);
        let at = |part: f64| times.shares.get((times.shares.len() as f64 * part) as usize).copied().unwrap_or(1.0);
        (times.median_of_limit, times.p90_of_limit) = (at(0.5), at(0.9));
    }
    if goes_on && config.healthy_ms > 0 {
        report.healthy = Some(healthy(&models[0], config.healthy_ms, config.seed, || progress(done)));
    }
    report
}

/// Intervals within which a fault must be found.
fn limit(fault: &Fault) -> i64 {
    match fault.behaviour {
        Behaviour::Lossy(rate) => (3.0 / rate).ceil() as i64,
        _ => DOWN_INTERVALS,
    }
}

/// When the case is judged.
fn deadline(faults: &[Fault]) -> i64 {
    let of = |fault: &Fault| match fault.behaviour {
        Behaviour::Flapping { period, .. } => 3 * i64::from(period),
        _ => limit(fault),
    };
    faults.iter().map(of).max().unwrap_or(DOWN_INTERVALS)
}

fn window(at: i64) -> i64 {
    WINDOWS.into_iter().find(|window| *window >= at).unwrap_or(at)
}

fn checkpoints(deadline: i64) -> Vec<i64> {
    let (mut all, mut at) = (vec![], 1i64);
    while at < deadline {
        all.push(at);
        at = (at + 1).max(at * 5 / 4);
    }
    all.push(deadline);
    all
}

fn one_case(number: u32, model: &ProbeModel, algorithms: &[Box<dyn Localiser>], rng: &mut Rng, report: &mut Report) {
    let fabric = *model.matrix().fabric();
    let weather = [Weather::Idle, Weather::Load, Weather::Incast, Weather::Trimming][rng.below(4) as usize];
    let (case, faults) = random_faults(&fabric, rng);
    let truth: BTreeSet<Component> = faults.iter().map(|fault| fault.component).collect();
    let weights: Vec<(Component, f64)> = faults.iter().map(|fault| (fault.component, fault.weight())).collect();
    let identify = Identify::of(model.matrix(), &weights);
    let end = deadline(&faults);
    let run = model.run(rng, weather, &faults, -window(end), end);
    let at_end = model.counts(&run, end - window(end), end);
    let ours = Ours::default();
    if identify != Identify::Identifiable {
        let found = ours.locate(model.matrix(), &at_end);
        report.not_identifiable.entry(identify).or_default().add(&truth, &found);
        return;
    }
    for (algorithm, (_, tally)) in algorithms.iter().zip(&mut report.algorithms) {
        let found = algorithm.locate(model.matrix(), &at_end);
        tally.add(&truth, &found);
        if algorithm.name() == ours.name() {
            let mut own = Tally::default();
            own.add(&truth, &found);
            report.cases.entry(case).or_default().merge(&own);
            if own.exact == 0 {
                report.misses.push(Miss {
                    case: number,
                    hosts: fabric.hosts,
                    weather,
                    faulty: faults.iter().map(|f| format!("{} {:?}", f.component, f.behaviour)).collect(),
                    reported: found,
                });
            }
        }
    }
    time(model, &run, &faults, case, end, report);
}

/// When each component is found first, and who is accused on the way.
fn time(model: &ProbeModel, run: &Run, faults: &[Fault], case: Case, end: i64, report: &mut Report) {
    let mut open: Vec<&Fault> = faults.iter().collect();
    let mut accused: BTreeSet<Component> = BTreeSet::new();
    let times = report.times.entry(case).or_default();
    times.components += faults.len() as u32;
    for at in checkpoints(end) {
        let counts = model.counts(run, at - window(at), at);
        let found = Ours::default().locate(model.matrix(), &counts);
        open.retain(|fault| {
            let there = found.iter().any(|finding| finding.component == fault.component);
            if there {
                times.in_time += u32::from(at <= limit(fault));
                times.shares.push(at as f64 / limit(fault) as f64);
            }
            !there
        });
        let wrong = found.iter().filter(|finding| {
            finding.instead.is_empty()
                && !matches!(finding.component, Component::Host(_))
                && !faults.iter().any(|fault| {
                    fault.component.with_direction(Direction::Both) == finding.component.with_direction(Direction::Both)
                })
        });
        accused.extend(wrong.map(|finding| finding.component));
    }
    report.accused_early += accused.len() as u32;
}

fn random_faults(fabric: &Fabric, rng: &mut Rng) -> (Case, Vec<Fault>) {
    let kind = rng.below(SINGLE.len() as u64 + 2) as usize;
    if let Some(case) = SINGLE.get(kind) {
        return (*case, vec![random_fault(fabric, *case, rng)]);
    }
    let mut one = || random_fault(fabric, SINGLE[rng.below(SINGLE.len() as u64 - 1) as usize], rng);
    let first = one();
    loop {
        let second = one();
        if second.component.with_direction(Direction::Both) != first.component.with_direction(Direction::Both) {
            return (Case::Two, vec![first, second]);
        }
    }
}

fn random_fault(fabric: &Fabric, case: Case, rng: &mut Rng) -> Fault {
    let plane = rng.below(u64::from(fabric.planes)) as u8;
    let (leaf, spine) = (rng.below(u64::from(fabric.leaves)) as u16, rng.below(u64::from(fabric.spines)) as u16);
    let host = rng.below(u64::from(fabric.hosts)) as u16;
    let (uplink, up) = (rng.chance(0.6), rng.chance(0.5));
    let link = |direction| match uplink {
        true => Component::Uplink(plane, leaf, spine, direction),
        false => Component::HostLink(plane, host, direction),
    };
    let one_way = link(if up { Direction::Up } else { Direction::Down });
    let lossy = Behaviour::Lossy(rng.log_uniform(0.001, 0.2));
    let outage = 10 + rng.below(190) as u32;
    let flapping = Behaviour::Flapping { outage, period: outage * (2 + rng.below(4) as u32) };
    let (component, behaviour) = match case {
        Case::LinkDown => (link(Direction::Both), Behaviour::Down),
        Case::LinkLossy => (link(Direction::Both), lossy),
        Case::OneWayDown => (one_way, Behaviour::Down),
        Case::OneWayLossy => (one_way, lossy),
        Case::LinkFlapping => (link(Direction::Both), flapping),
        Case::SpineSilent => (Component::T1(plane, spine), Behaviour::Down),
        Case::SpineLossy => (Component::T1(plane, spine), lossy),
        Case::LeafSilent => (Component::T0(plane, leaf), Behaviour::Down),
        Case::LeafLossy => (Component::T0(plane, leaf), lossy),
        Case::PlaneSilent | Case::Two => (Component::Plane(plane), Behaviour::Down),
    };
    Fault { component, behaviour }
}

/// Intervals of a [`Day`] that are drawn together.
pub const BLOCK: i64 = 4096;

/// Virtual time without a fault, in the worst weather, block by block.
#[derive(Debug)]
pub struct Day<'m> {
    model: &'m ProbeModel,
    rng: Rng,
    left: i64,
}

impl<'m> Day<'m> {
    /// So many intervals; the seed is that of [`ScoreConfig`].
    #[must_use]
    pub fn new(model: &'m ProbeModel, intervals: u64, seed: u64) -> Self {
        Self { model, rng: Rng::new(seed ^ 0x4845_414C_5448_5900), left: intervals as i64 }
    }
}

impl Iterator for Day<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let intervals = self.left.min(BLOCK);
        self.left -= intervals;
        (intervals > 0).then(|| self.model.run(&mut self.rng, Weather::Trimming, &[], 0, intervals))
    }
}

impl Healthy {
    /// Nothing yet, of so many intervals of a millisecond.
    #[must_use]
    pub fn new(model: &ProbeModel, ms: u64) -> Self {
        Self { ms, probes: (model.probes_per_interval() * ms as f64) as u64, ..Self::default() }
    }

    /// Ends after so many intervals, if that is sooner.
    pub fn cut(&mut self, model: &ProbeModel, ms: u64) {
        let Self { ms, probes, .. } = Self::new(model, ms.min(self.ms));
        (self.ms, self.probes) = (ms, probes);
    }

    /// Lets ours judge the windows of a block: every report is wrong.
    pub fn judge(&mut self, model: &ProbeModel, run: &Run) {
        let ours = Ours::default();
        self.lost += run.lost_in(0, BLOCK) as u64;
        for window in WINDOWS.into_iter().filter(|window| *window <= BLOCK) {
            for from in (0..BLOCK).step_by(window as usize) {
                if run.lost_in(from, from + window) < 3 {
                    continue;
                }
                self.windows += 1;
                for finding in ours.locate(model.matrix(), &model.counts(run, from, from + window)) {
                    if matches!(finding.component, Component::Host(_)) {
                        self.hosts += 1;
                    } else {
                        self.reports += 1;
                        self.denials += u64::from(finding.instead.is_empty());
                    }
                }
            }
        }
    }
}

fn healthy(model: &ProbeModel, ms: u64, seed: u64, mut goes_on: impl FnMut() -> bool) -> Healthy {
    let (mut sum, mut judged) = (Healthy::new(model, ms), 0);
    for run in Day::new(model, ms, seed) {
        sum.judge(model, &run);
        judged += BLOCK as u64;
        if !goes_on() {
            break;
        }
    }
    sum.cut(model, judged);
    sum
}

#[cfg(test)]
mod tests;

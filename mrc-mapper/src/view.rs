//! What agents told lately, and the components behind it. An agent keeps one of its own paths and decides alone; a collector
//! keeps one of all agents.
//!
//! Time is the keeper's own: summaries count from when they arrive, so that an agent with a wrong clock does no harm. The
//! newest summaries are judged over several spans, and the span with most evidence is believed: a short one finds what is
//! down, a long one what loses little. A component is faulty when it was reported [`ViewConfig::confirm`] times in a row
//! without an alternative. It is healthy again when it was not for [`ViewConfig::clear`] times, or as soon as a span would
//! hold [`ENOUGH`] losses at its rate and holds less than a tenth of them; what was lost before is forgotten then.
//!
//! # Bounds
//! A view keeps [`ViewConfig::spans`]' longest span of summaries per agent, and of each at most [`MAX_PATHS`] paths.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::agent::Summary;
use crate::locate::{Counts, Finding, Localiser, Matrix, Ours, OursConfig};
use crate::plan::PathSpec;
use crate::policy;
use crate::topology::{Component, Fabric, HostId};

/// Paths of a summary that are looked at.
pub const MAX_PATHS: usize = 4096;

/// Losses that a healed component is spared before it is believed.
pub const ENOUGH: f64 = 20.0;

/// Knobs of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewConfig {
    /// Rounds that are judged together.
    pub spans: Vec<usize>,
    /// Rounds in a row that make a component faulty.
    pub confirm: u32,
    /// Rounds in a row that make it healthy again.
    pub clear: u32,
    /// The algorithm's knobs.
    pub ours: OursConfig,
    /// The host that keeps the view alone, if one does: what it cannot tell apart counts when all of it lies at the host's
    /// own end of a plane ([`crate::policy::own_end`]).
    pub viewpoint: Option<HostId>,
}

impl Default for ViewConfig {
    fn default() -> Self {
        Self { spans: vec![1, 3, 10, 30], confirm: 2, clear: 3, ours: OursConfig::default(), viewpoint: None }
    }
}

/// A fault that begins or ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// A component is faulty.
    Faulty {
        /// What, how much, and why.
        finding: Finding,
    },
    /// A component is healthy again.
    Healthy {
        /// Which.
        component: Component,
    },
}

/// Why a summary is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The host does not exist.
    #[error("summary of host number {0}, which the fabric does not have")]
    Host(HostId),
    /// More paths than an agent can have.
    #[error("summary with {0} paths, more than {MAX_PATHS}")]
    Paths(usize),
    /// A path that does not exist.
    #[error("summary with a path that the fabric does not have")]
    Path,
    /// More lost than sent.
    #[error("summary that counts more lost probes than sent ones, or more than an agent can send")]
    Counts,
    /// Seen before, or older than what is known.
    #[error("summary number {0} was taken before: replayed, or two agents under one name")]
    Old(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sent: u64,
    lost: u64,
    late: u64,
    congested: u64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.late += other.late;
        self.congested += other.congested;
    }

    /// Probes that did not come back at all. Those that were late may have been judged in an earlier round.
    fn missing(&self) -> u64 {
        self.lost.saturating_sub(self.late)
    }
}

/// Paths of a round: host and path, with its sums.
type Round = BTreeMap<(HostId, PathSpec), Sum>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Standing {
    seen: u32,
    missed: u32,
    faulty: bool,
}

/// The view.
#[derive(Debug)]
pub struct View {
    fabric: Fabric,
    config: ViewConfig,
    current: Round,
    rounds: VecDeque<Round>,
    standing: BTreeMap<Component, (Standing, Finding)>,
    agents: BTreeMap<HostId, (u32, u64)>,
    gone: BTreeMap<HostId, Vec<u8>>,
}

impl View {
    /// An empty view.
    #[must_use]
    pub fn new(fabric: Fabric, config: ViewConfig) -> Self {
        Self {
            fabric,
            config,
            current: Round::new(),
            rounds: VecDeque::new(),
            standing: BTreeMap::new(),
            agents: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    /// Takes in a summary.
    ///
    /// # Errors
    /// [`Rejected`] when no agent of this fabric can have sent it; nothing of it is kept then.
    pub fn add(&mut self, summary: &Summary) -> Result<(), Rejected> {
        if summary.host >= self.fabric.hosts {
            return Err(Rejected::Host(summary.host));
        }
        if summary.paths.len() > MAX_PATHS {
            return Err(Rejected::Paths(summary.paths.len()));
        }
        for path in &summary.paths {
            if !path.path.exists(&self.fabric) {
                return Err(Rejected::Path);
            }
            let delta = path.delta;
            if delta.lost > delta.sent || delta.lost_congested > delta.lost || delta.sent.max(delta.late) > 1_000_000 {
                return Err(Rejected::Counts);
            }
        }
        match self.agents.get(&summary.host) {
            Some((instance, number)) if *instance == summary.instance && summary.number <= *number => {
                return Err(Rejected::Old(summary.number));
            }
            _ => {}
        }
        self.agents.insert(summary.host, (summary.instance, summary.number));
        self.gone.insert(summary.host, summary.gone.iter().copied().filter(|p| *p < self.fabric.planes).collect());
        for path in &summary.paths {
            let sum = self.current.entry((summary.host, path.path)).or_default();
            sum.sent += path.delta.sent;
            sum.lost += path.delta.lost;
            sum.late += path.delta.late;
            sum.congested += path.delta.lost_congested;
        }
        Ok(())
    }

    /// Ends a round and says what changed.
    pub fn judge(&mut self) -> Vec<Change> {
        self.rounds.push_front(std::mem::take(&mut self.current));
        self.rounds.truncate(self.config.spans.iter().copied().max().unwrap_or(1));
        let mut found: Vec<Finding> = Vec::new();
        let mut most = 0.0;
        for span in self.config.spans.clone() {
            let findings = self.locate(span);
            let evidence: f64 = findings.iter().map(|finding| finding.evidence).sum();
            if evidence > most {
                (most, found) = (evidence, findings);
            }
        }
        for (host, planes) in &self.gone {
            for plane in planes {
                let component = Component::NicPort(*plane, *host);
                found.retain(
                    |finding| !matches!(finding.component, Component::HostLink(p, h, _) if (p, h) == (*plane, *host)),
                );
                found.push(Finding { component, loss: 1.0, evidence: f64::MAX, instead: Vec::new() });
            }
        }
        let healed = self.healed();
        found.retain(|finding| !healed.contains(&finding.component));
        let mut changes: Vec<Change> =
            healed.iter().map(|component| Change::Healthy { component: *component }).collect();
        changes.extend(self.settle(found));
        changes
    }

    /// Faulty components that a recent span acquits. Their losses in earlier rounds are forgotten.
    fn healed(&mut self) -> Vec<Component> {
        let mut healed = Vec::new();
        for finding in self.faulty().cloned().collect::<Vec<_>>() {
            if matches!(finding.component, Component::NicPort(..)) {
                continue;
            }
            let elements = self.fabric.elements_of(finding.component);
            let through = |key: &(HostId, PathSpec)| {
                key.1.elements(&self.fabric, key.0).iter().any(|element| elements.contains(element))
            };
            let (mut sent, mut lost) = (0.0, 0.0);
            for (rounds, round) in self.rounds.iter().enumerate() {
                for (_, sum) in round.iter().filter(|(key, _)| through(key)) {
                    sent += sum.sent as f64;
                    lost += sum.missing() as f64;
                }
                if rounds + 1 >= self.config.clear as usize && sent * finding.loss >= ENOUGH {
                    break;
                }
            }
            if sent * finding.loss < ENOUGH || lost >= 0.1 * sent * finding.loss {
                continue;
            }
            for round in &mut self.rounds {
                for (key, sum) in round.iter_mut() {
                    if key.1.elements(&self.fabric, key.0).iter().any(|element| elements.contains(element)) {
                        (sum.lost, sum.late, sum.congested) = (0, 0, 0);
                    }
                }
            }
            self.standing.remove(&finding.component);
            healed.push(finding.component);
        }
        healed
    }

    fn locate(&self, span: usize) -> Vec<Finding> {
        let mut sums = Round::new();
        for round in self.rounds.iter().take(span) {
            for (key, sum) in round {
                sums.entry(*key).or_default().add(sum);
            }
        }
        let mut counts = Counts { window: 1.0, ..Counts::default() };
        for (path, sum) in (0u32..).zip(sums.values()) {
            if sum.missing() > 0 {
                counts.lost.insert(path, sum.missing().min(u64::from(u32::MAX)) as u32);
                counts.lost_congested.insert(path, sum.congested.min(u64::from(u32::MAX)) as u32);
            }
        }
        if counts.lost.is_empty() {
            return Vec::new();
        }
        let rows = sums.iter().map(|((host, spec), sum)| (spec.elements(&self.fabric, *host), sum.sent as f64));
        Ours(self.config.ours).locate(&Matrix::new(self.fabric, rows), &counts)
    }

    /// Findings that stand for one component, or for several that mean the same at the viewpoint.
    fn certain(&self, finding: Finding) -> Option<Finding> {
        let finding = match self.config.viewpoint {
            Some(_) => policy::at_own_end(&self.fabric, finding),
            None => finding,
        };
        let own = self
            .config
            .viewpoint
            .is_some_and(|host| policy::own_end(&self.fabric, &finding).is_some_and(|(_, at)| at == host));
        (finding.instead.is_empty() || own).then_some(finding)
    }

    fn settle(&mut self, found: Vec<Finding>) -> Vec<Change> {
        let mut changes = Vec::new();
        let found: Vec<Finding> = found.into_iter().filter_map(|finding| self.certain(finding)).collect();
        for (component, (standing, _)) in &mut self.standing {
            if !found.iter().any(|finding| finding.component == *component) {
                standing.missed += 1;
                standing.seen = 0;
                if standing.faulty && standing.missed >= self.config.clear {
                    changes.push(Change::Healthy { component: *component });
                }
            }
        }
        let clear = self.config.clear;
        self.standing.retain(|_, (standing, _)| standing.missed < clear && (standing.faulty || standing.seen > 0));
        for finding in found {
            let fresh = Standing { seen: 0, missed: 0, faulty: false };
            let (standing, last) = self.standing.entry(finding.component).or_insert_with(|| (fresh, finding.clone()));
            standing.seen += 1;
            standing.missed = 0;
            *last = finding.clone();
            if !standing.faulty && standing.seen >= self.config.confirm {
                standing.faulty = true;
                changes.push(Change::Faulty { finding });
            }
        }
        changes
    }

    /// What is faulty now.
    pub fn faulty(&self) -> impl Iterator<Item = &Finding> {
        self.standing.values().filter(|(standing, _)| standing.faulty).map(|(_, finding)| finding)
    }

    /// The evidence about a component: paths through it with what was sent and lost over the longest span.
    #[must_use]
    pub fn why(&self, component: Component) -> Vec<(HostId, PathSpec, u64, u64)> {
        let elements = self.fabric.elements_of(component);
        let mut sums: Round = Round::new();
        for round in &self.rounds {
            for ((host, spec), sum) in round {
                if spec.elements(&self.fabric, *host).iter().any(|element| elements.contains(element)) {
                    sums.entry((*host, *spec)).or_default().add(sum);
                }
            }
        }
        sums.into_iter().map(|((host, spec), sum)| (host, spec, sum.sent, sum.missing())).collect()
    }

    /// Agents that told something, with instance and number of their last summary.
    #[must_use]
    pub fn agents(&self) -> &BTreeMap<HostId, (u32, u64)> {
        &self.agents
    }
}

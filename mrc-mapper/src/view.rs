//! The recent reports of agents, and the faulty components that follow from them. An agent keeps a view of its own paths and
//! decides alone; a collector keeps one of all agents.
//!
//! A view uses its own clock: a summary counts from its arrival, so an agent with a wrong clock does no harm. The newest
//! summaries are judged over several spans, and the span with most evidence decides. A short span finds what is down, a
//! long one finds small losses.
//!
//! A component becomes faulty when [`ViewConfig::confirm`] rounds with new losses in a row report it without an alternative.
//! A link that is down, of which the direction alone is open, takes [`ViewConfig::relapse`] more.
//! It becomes healthy again
//! * when [`ViewConfig::clear`] rounds in a row do not report it, not even as one of several that it may be, or
//! * when a span in which it should have lost [`ENOUGH`] probes at its rate has less than a tenth of them. Its earlier losses
//!   are forgotten then.
//!
//! A round in which no probe passed it does not count: a component does not become healthy because its agents are gone.
//!
//! # Cost and bounds
//! A round is kept as sums per component, a number per path and the losses of lossy paths: a judgement costs as much as there are
//! components and losses, however many paths there are. A view keeps as many rounds as [`ViewConfig::spans`]' longest span, and
//! of each summary at most [`MAX_PATHS`] paths.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::agent::Summary;
use crate::locate::{Counts, Finding, Localiser, Matrix, Ours, OursConfig, Sums};
use crate::plan::PathSpec;
use crate::policy;
use crate::topology::{Component, Direction, Element, Fabric, HostId};

mod rounds;

use rounds::{Losses, Paths, Round};

/// Paths of a summary that are looked at.
pub const MAX_PATHS: usize = 4096;

/// Losses that a healed component is spared before it is believed.
pub const ENOUGH: f64 = 20.0;

/// A component that loses a larger share than this is down: what little passes was judged before it broke.
const DOWN: f64 = 0.5;

/// Knobs of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewConfig {
    /// Rounds that are judged together.
    pub spans: Vec<usize>,
    /// Rounds in a row that make a component faulty.
    pub confirm: u32,
    /// Rounds in a row that make it healthy again.
    pub clear: u32,
    /// Rounds for which a component that healed is remembered: agents that were paused still tell what it lost before. It
    /// is a likely cause of losses in that time, and must lose in [`Self::relapse`] more rounds to be faulty again.
    pub recent: u32,
    /// See [`Self::recent`].
    pub relapse: u32,
    /// The algorithm's knobs.
    pub ours: OursConfig,
    /// The host that keeps the view alone, if one does: what it cannot tell apart counts when all of it lies at the host's
    /// own end of a plane ([`crate::policy::own_end`]).
    pub viewpoint: Option<HostId>,
}

impl Default for ViewConfig {
    fn default() -> Self {
        Self {
            spans: vec![1, 2, 3, 5, 8, 12, 18, 30],
            confirm: 2,
            clear: 3,
            recent: 20,
            relapse: 3,
            ours: OursConfig::default(),
            viewpoint: None,
        }
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

/// What a path says about a component on it, over the longest span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Who probes.
    pub host: HostId,
    /// The path.
    pub path: PathSpec,
    /// Probes judged.
    pub sent: u64,
    /// Probes that did not come back.
    pub lost: u64,
    /// Of these, those as long as a full data packet.
    pub lost_full: u64,
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
    paths: Paths,
    /// The round that has not ended: probes judged and losses per path.
    current: HashMap<u32, (u32, Losses)>,
    rounds: VecDeque<Round>,
    standing: BTreeMap<Component, (Standing, Finding)>,
    /// Components that healed, with the rounds for which they are remembered.
    healed: BTreeMap<Component, u32>,
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
            paths: Paths::default(),
            current: HashMap::new(),
            rounds: VecDeque::new(),
            standing: BTreeMap::new(),
            healed: BTreeMap::new(),
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
            let parts = delta.lost_congested.max(delta.full_lost);
            if delta.lost > delta.sent || parts > delta.lost || delta.sent.max(delta.late) > 1_000_000 {
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
            let number = self.paths.number(&self.fabric, summary.host, path.path);
            let (sent, losses) = self.current.entry(number).or_default();
            // Each summary counts a million at most.
            *sent = sent.saturating_add(path.delta.sent as u32);
            losses.add(Losses {
                lost: path.delta.lost as u32,
                late: path.delta.late as u32,
                congested: path.delta.lost_congested as u32,
                full: path.delta.full_lost as u32,
            });
        }
        Ok(())
    }

    /// Ends a round and says what changed.
    pub fn judge(&mut self) -> Vec<Change> {
        let current = std::mem::take(&mut self.current);
        self.rounds.push_front(Round::new(&self.fabric, &self.paths, current));
        self.rounds.truncate(self.config.spans.iter().copied().max().unwrap_or(1));
        self.paths.compact(&self.fabric, &mut self.rounds);
        let mut found: Vec<Finding> = Vec::new();
        let mut most = 0.0;
        let place = |component: Component| component.with_direction(Direction::Both);
        let likely: BTreeSet<Component> = self.healed.keys().copied().collect();
        for span in self.config.spans.clone() {
            let findings = self.locate(span, &likely);
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
        self.healed.retain(|_, rounds| {
            *rounds -= 1;
            *rounds > 0
        });
        for change in &changes {
            if let Change::Healthy { component } = change
                && self.config.recent > 0
            {
                self.healed.insert(place(*component), self.config.recent);
            }
        }
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
            let (mut sent, mut lost) = (0.0, 0.0);
            for (rounds, round) in self.rounds.iter().enumerate() {
                sent += round.probes(&elements);
                let through = round.losses.iter().filter(|(path, _)| self.paths.passes_any(*path, &elements));
                lost += through.map(|(_, losses)| f64::from(losses.missing())).sum::<f64>();
                if rounds + 1 >= self.config.clear as usize && sent * finding.loss >= ENOUGH {
                    break;
                }
            }
            if sent * finding.loss < ENOUGH || lost >= 0.1 * sent * finding.loss {
                continue;
            }
            for round in &mut self.rounds {
                round.losses.retain(|(path, _)| !self.paths.passes_any(*path, &elements));
            }
            self.standing.remove(&finding.component);
            healed.push(finding.component);
        }
        healed
    }

    fn locate(&self, span: usize, likely: &BTreeSet<Component>) -> Vec<Finding> {
        let mut lossy: BTreeMap<u32, Losses> = BTreeMap::new();
        for round in self.rounds.iter().take(span) {
            for (path, losses) in &round.losses {
                lossy.entry(*path).or_default().add(*losses);
            }
        }
        lossy.retain(|_, losses| losses.missing() > 0);
        if lossy.is_empty() {
            return Vec::new();
        }
        let mut sums = vec![Sums::default(); self.fabric.elements() as usize];
        for round in self.rounds.iter().take(span) {
            for (sum, of_round) in sums.iter_mut().zip(&round.sums) {
                *sum += *of_round;
            }
        }
        // The order in which agents came must not matter.
        let mut lossy: Vec<(u32, Losses)> = lossy.into_iter().collect();
        lossy.sort_by_key(|(path, _)| self.paths.key(*path));
        let mut counts = Counts { window: 1.0, likely: likely.clone(), ..Counts::default() };
        for (row, (_, losses)) in (0u32..).zip(&lossy) {
            counts.lost.insert(row, losses.missing());
            counts.lost_congested.insert(row, losses.congested);
        }
        let sent = |path: u32| self.rounds.iter().take(span).map(|round| f64::from(round.sent(path))).sum::<f64>();
        let rows = lossy.iter().map(|(path, _)| (self.paths.passes(*path), sent(*path)));
        Ours(self.config.ours).locate(&Matrix::of_lossy(self.fabric, rows, sums), &counts)
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

    /// The link of a finding of which only the direction is open. Nothing tells the directions of a link apart when all other
    /// links at its end are down as well: the link is to be reported all the same, under the name that it has already.
    fn of_open_direction(&self, finding: &Finding) -> Option<Finding> {
        let link = finding.component.with_direction(Direction::Both);
        let one_link = || finding.instead.iter().all(|other| other.with_direction(Direction::Both) == link);
        if finding.instead.is_empty() || finding.loss < DOWN || !one_link() {
            return None;
        }
        let named = [Direction::Up, Direction::Down].map(|direction| link.with_direction(direction));
        let is_faulty = |name: &Component| self.standing.get(name).is_some_and(|(standing, _)| standing.faulty);
        let component = named.into_iter().find(is_faulty).unwrap_or(link);
        Some(Finding { component, instead: Vec::new(), ..finding.clone() })
    }

    fn settle(&mut self, found: Vec<Finding>) -> Vec<Change> {
        let mut changes = Vec::new();
        let place = |component: Component| component.with_direction(Direction::Both);
        let (mut open, mut undecided) = (BTreeSet::new(), BTreeSet::new());
        let decide = |finding: Finding| {
            let link = self.of_open_direction(&finding);
            open.extend(link.as_ref().map(|link| link.component));
            let may_be: Vec<_> = finding.instead.iter().chain([&finding.component]).map(|may| place(*may)).collect();
            let decided = link.or_else(|| self.certain(finding));
            if decided.is_none() {
                undecided.extend(may_be);
            }
            decided
        };
        let found: Vec<Finding> = found.into_iter().filter_map(decide).collect();
        let newest = self.rounds.front();
        for (component, (standing, _)) in &mut self.standing {
            let was_probed = newest.is_some_and(|round| round.probes(&self.fabric.elements_of(*component)) > 0.0);
            let is_found = found.iter().any(|finding| finding.component == *component);
            // Few losses leave open in which direction a link has them, or at which end of it they are. It loses all the same.
            let may_be = standing.faulty && undecided.contains(&place(*component));
            if !is_found && !may_be && (was_probed || !standing.faulty) {
                standing.missed += 1;
                standing.seen = 0;
                if standing.faulty && standing.missed >= self.config.clear {
                    changes.push(Change::Healthy { component: *component });
                }
            }
        }
        let clear = self.config.clear;
        self.standing.retain(|_, (standing, _)| standing.missed < clear && (standing.faulty || standing.seen > 0));
        let lossy = found.iter().map(|finding| self.lost_lately(finding, &found)).collect::<Vec<_>>();
        for (finding, lossy) in found.into_iter().zip(lossy) {
            let fresh = Standing { seen: 0, missed: 0, faulty: false };
            let doubtful = self.healed.contains_key(&place(finding.component)) || open.contains(&finding.component);
            let relapse = if doubtful { self.config.relapse } else { 0 };
            let (standing, last) = self.standing.entry(finding.component).or_insert_with(|| (fresh, finding.clone()));
            standing.seen += u32::from(lossy);
            standing.missed = 0;
            *last = finding.clone();
            if !standing.faulty && standing.seen >= self.config.confirm + relapse {
                standing.faulty = true;
                changes.push(Change::Faulty { finding });
            }
        }
        changes
    }

    /// Whether the newest round has losses that this finding explains and no other one does. What was lost earlier is
    /// confirmed by looking again at new losses, not at the same ones.
    fn lost_lately(&self, finding: &Finding, found: &[Finding]) -> bool {
        let own = self.fabric.elements_of(finding.component);
        let others: Vec<Element> = found
            .iter()
            .filter(|other| other.component != finding.component)
            .flat_map(|other| self.fabric.elements_of(other.component))
            .filter(|element| !own.contains(element))
            .collect();
        let own_alone = |path: u32| self.paths.passes_any(path, &own) && !self.paths.passes_any(path, &others);
        matches!(finding.component, Component::NicPort(..))
            || self
                .rounds
                .front()
                .is_some_and(|round| round.losses.iter().any(|(path, losses)| losses.missing() > 0 && own_alone(*path)))
    }

    /// What is faulty now.
    pub fn faulty(&self) -> impl Iterator<Item = &Finding> {
        self.standing.values().filter(|(standing, _)| standing.faulty).map(|(_, finding)| finding)
    }

    /// The evidence about a component: what the paths through it say.
    #[must_use]
    pub fn why(&self, component: Component) -> Vec<Evidence> {
        let elements = self.fabric.elements_of(component);
        let mut sums: BTreeMap<(HostId, PathSpec), (u64, Losses)> = BTreeMap::new();
        for path in self.paths.through(&elements) {
            for round in &self.rounds {
                let (sent, losses) = sums.entry(self.paths.key(path)).or_default();
                *sent += u64::from(round.sent(path));
                losses.add(round.losses_of(path));
            }
        }
        sums.retain(|_, (sent, _)| *sent > 0);
        let evidence = |((host, path), (sent, losses)): ((HostId, PathSpec), (u64, Losses))| {
            let lost = losses.missing();
            Evidence { host, path, sent, lost: lost.into(), lost_full: lost.min(losses.full).into() }
        };
        sums.into_iter().map(evidence).collect()
    }

    /// Agents that told something, with instance and number of their last summary.
    #[must_use]
    pub fn agents(&self) -> &BTreeMap<HostId, (u32, u64)> {
        &self.agents
    }
}

//! Our algorithm: the most likely small set of components, each with one loss rate.
//!
//! A probe comes back with probability `exp(-(noise + sum over components of traversals * weight))`. A component that loses
//! the share `p` per traversal has the weight `-ln(1 - p)`.
//!
//! The algorithm adds one component at a time: the one that makes the observed losses most likely, as long as the gain
//! exceeds [`OursConfig::penalty`]. Then it takes each component out again, and keeps it only if no other one explains its
//! losses better. [`Finding::instead`] lists components that fit nearly as well. Act on a finding only if that list is
//! empty.
//!
//! Each component is tried in two forms: independent losses per traversal, and an outage. In an outage a probe that passes
//! twice is lost no more often than one that passes once. Links that flap and windows that begin before the fault look
//! like this.
//!
//! The matrix holds sums over the paths without losses, so the cost of a call grows with the number of losses only.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Counts, Finding, Localiser, Matrix, Sums};
use crate::topology::{Component, Direction, Element, Fabric};

/// Knobs of [`Ours`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OursConfig {
    /// Control class losses per probe that are nobody's fault.
    pub noise: f64,
    /// The same on a path that is congested: trimmed packets may overflow even the class of acknowledgements.
    pub congested_noise: f64,
    /// Logarithm by which a component must make the losses more likely.
    pub penalty: f64,
    /// The same of switches and planes: they break less often than links and explain a little of what any of their links loses.
    pub wide_penalty: f64,
    /// The same of [`Counts::likely`] components and of hosts, which do not answer when they are short of processor time:
    /// they explain losses before others do. They are reported only when they gain [`Self::penalty`], too.
    pub likely_penalty: f64,
    /// Fewest lost probes behind a component.
    pub fewest: u32,
    /// Logarithm by which alternatives must be less likely.
    pub margin: f64,
}

impl Default for OursConfig {
    fn default() -> Self {
        Self {
            noise: 1e-5,
            congested_noise: 1e-2,
            penalty: 30.0,
            wide_penalty: 45.0,
            likely_penalty: 5.0,
            fewest: 5,
            margin: 6.0,
        }
    }
}

/// The algorithm.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ours(pub OursConfig);

/// Loss rates up to 1 - exp(-14); more is down.
const HEAVIEST: f64 = 14.0;
const LIGHTEST: f64 = 1e-8;
/// Components found at most, paused hosts included.
const MOST_FINDINGS: usize = 128;

/// Causes that are looked for behind a component that many paths pass, besides one.
const CAUSES: usize = 3;

/// By so much of the evidence several causes must explain more than what they have in common does: hosts pause at different
/// times, so that each host sees its own share of what one component loses.
const CLEARLY: f64 = 0.02;

/// Kinds of components, those with few paths through them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Breadth {
    Uplink,
    HostLink,
    Switch,
}

/// Lossy paths through a suspect, by place, with the traversals.
type Passed = Vec<(u32, u8)>;

impl Breadth {
    /// How much of what passes a host's port passes the component.
    fn of(component: Component) -> Self {
        match component {
            Component::T0(..) | Component::T1(..) | Component::Plane(_) => Self::Switch,
            Component::HostLink(..) | Component::NicPort(..) => Self::HostLink,
            Component::Uplink(..) | Component::Host(_) => Self::Uplink,
        }
    }
}

/// A component in one of its two forms.
struct Suspect {
    component: Component,
    /// The component, or the link whose direction it is.
    place: Component,
    breadth: Breadth,
    /// What it must gain.
    penalty: f64,
    passed: Passed,
    /// Traversals that went well.
    healthy: f64,
}

/// A path that lost probes.
///
/// Probes lost while the path was congested are an entry of their own, with more noise.
struct Lossy {
    lost: f64,
    /// Noise and the weights of the components chosen so far.
    weight: f64,
    /// Its number among all weights.
    class: u32,
}

/// A weight that lossy paths have. There are few: paths differ in the components chosen so far, no more.
#[derive(Debug, Clone, Copy)]
struct Class {
    weight: f64,
    /// Logarithm of the probability that a probe is lost.
    ln_lost: f64,
    /// By how much a lost probe becomes more likely with the weight, as a logarithm.
    slope: f64,
}

impl Class {
    fn new(weight: f64) -> Self {
        Self { weight, ln_lost: ln_lost(weight), slope: 1.0 / weight.exp_m1() }
    }
}

struct Search<'a> {
    config: OursConfig,
    matrix: &'a Matrix,
    counts: &'a Counts,
    lossy: Vec<Lossy>,
    classes: Vec<Class>,
    /// Most traversals of a suspect by a path.
    most_times: u8,
    /// Lossy paths through an element: place in `lossy`, traversals.
    through: BTreeMap<Element, Vec<(u32, u8)>>,
    /// The same sums as the matrix has, of probes not judged.
    missing: BTreeMap<Element, Sums>,
    suspects: Vec<Suspect>,
}

/// What [`Search::fit`] works with, made once.
#[derive(Default)]
struct Room {
    /// Lost probes by class and traversals; 0 between two calls.
    sums: Vec<f64>,
    /// The places in `sums` that are not 0: a suspect that few paths pass costs no more than these.
    used: Vec<usize>,
    /// What stands there: class, traversals, lost probes.
    terms: Vec<(Class, f64, f64)>,
}

#[derive(Debug, Clone, Copy)]
struct Fit {
    weight: f64,
    gain: f64,
}

impl Localiser for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding> {
        if counts.lost.values().sum::<u32>() < self.0.fewest {
            return Vec::new();
        }
        Search::new(self.0, matrix, counts).run()
    }
}

impl<'a> Search<'a> {
    fn new(config: OursConfig, matrix: &'a Matrix, counts: &'a Counts) -> Self {
        let mut search = Self {
            config,
            matrix,
            counts,
            lossy: Vec::new(),
            classes: Vec::new(),
            most_times: 1,
            through: BTreeMap::new(),
            missing: BTreeMap::new(),
            suspects: Vec::new(),
        };
        for (&path, &lost) in &counts.lost {
            let congested = counts.lost_congested.get(&path).copied().unwrap_or(0).min(lost);
            for (lost, fresh) in [(lost - congested, true), (congested, false)] {
                if lost == 0 {
                    continue;
                }
                let weight = if fresh { config.noise } else { config.congested_noise };
                let at = search.lossy.len() as u32;
                search.lossy.push(Lossy { lost: f64::from(lost), weight, class: 0 });
                for &(element, times) in matrix.passes(path) {
                    search.through.entry(element).or_default().push((at, times));
                }
            }
        }
        for (&path, &missing) in &counts.unjudged {
            let passes = matrix.passes(path);
            for &(element, times) in passes.iter().filter(|(element, _)| search.through.contains_key(element)) {
                let sums = search.missing.entry(element).or_default();
                sums.add(missing, times, matrix.passes_both(passes, element));
            }
        }
        let components: BTreeSet<Component> =
            search.through.keys().flat_map(|element| forms(matrix.fabric(), *element)).collect();
        for component in components {
            let place = component.with_direction(Direction::Both);
            let (breadth, penalty) = (Breadth::of(component), search.penalty(component));
            for outage in [false, true] {
                let (passed, healthy) = search.evidence(component, outage);
                search.most_times = passed.iter().map(|(_, times)| *times).fold(search.most_times, u8::max);
                search.suspects.push(Suspect { component, place, breadth, penalty, passed, healthy });
            }
        }
        search.classify();
        search
    }

    /// Lossy paths through a component with their traversals, and how many traversals went well.
    fn evidence(&self, component: Component, outage: bool) -> (Passed, f64) {
        let elements = self.matrix.fabric().elements_of(component);
        let mut passed: BTreeMap<u32, u8> = BTreeMap::new();
        let (mut sent, mut both) = (0.0, 0.0);
        for &element in &elements {
            for &(at, times) in self.through.get(&element).map_or(&[][..], Vec::as_slice) {
                let sum = passed.entry(at).or_default();
                *sum = if outage { 1 } else { *sum + times };
            }
            let (sums, missing) = (self.matrix.sums(element), self.missing.get(&element).copied().unwrap_or_default());
            let judged = |all: f64, missing: f64| all * self.counts.window - missing;
            sent += match outage {
                true => judged(sums.probes, missing.probes),
                false => judged(sums.passes, missing.passes),
            };
            both = judged(sums.both, missing.both);
        }
        if outage && elements.len() == 2 {
            sent -= both;
        }
        let lost: f64 = passed.iter().map(|(at, times)| self.lossy[*at as usize].lost * f64::from(*times)).sum();
        (passed.into_iter().collect(), (sent - lost).max(0.0))
    }

    /// Numbers the weights that the lossy paths have.
    fn classify(&mut self) {
        self.classes.clear();
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        for path in &mut self.lossy {
            path.class = *numbers.entry(path.weight.to_bits()).or_insert_with(|| {
                self.classes.push(Class::new(path.weight));
                self.classes.len() as u32 - 1
            });
        }
    }

    /// The weight that makes the losses most likely, all else being as it is, and by how much.
    fn fit(&self, suspect: &Suspect, Room { sums, used, terms }: &mut Room) -> Fit {
        let nothing = Fit { weight: 0.0, gain: 0.0 };
        let (width, healthy) = (usize::from(self.most_times) + 1, suspect.healthy);
        sums.resize(self.classes.len() * width, 0.0);
        // Paths of one class that pass as often say the same.
        for &(at, times) in &suspect.passed {
            let path = &self.lossy[at as usize];
            let place = path.class as usize * width + usize::from(times);
            if sums[place] == 0.0 {
                used.push(place);
            }
            sums[place] += path.lost;
        }
        let (mut most, mut lost, mut slope) = (0.0, 0.0, 0.0);
        terms.clear();
        for place in used.drain(..) {
            let (class, times) = (self.classes[place / width], (place % width) as f64);
            let sum = std::mem::take(&mut sums[place]);
            lost += sum;
            most -= sum * class.ln_lost;
            slope += sum * times * class.slope;
            terms.push((class, times, sum));
        }
        // An upper bound of the gain, for paths that pass the suspect up to four times.
        let bound = lost * (4.0 * lost / (lost + healthy) / self.config.noise).ln().max(0.0);
        if most.min(bound) < self.config.likely_penalty || lost < f64::from(self.config.fewest) {
            return nothing;
        }
        // The gain is concave in the weight: where it does not rise at once, it never does. Who was chosen gives its weight up then.
        if slope <= healthy {
            return Fit { weight: LIGHTEST, gain: 0.0 };
        }
        let weight = most_likely(terms, lost, healthy);
        let gained: f64 = terms
            .iter()
            .map(|(class, times, lost)| lost * (ln_lost(class.weight + times * weight) - class.ln_lost))
            .sum();
        Fit { weight, gain: gained - healthy * weight }
    }

    fn penalty(&self, component: Component) -> f64 {
        let likely = matches!(component, Component::Host(_))
            || self.counts.likely.contains(&component.with_direction(Direction::Both));
        match likely {
            true => self.config.likely_penalty,
            false if Breadth::of(component) == Breadth::Switch => self.config.wide_penalty,
            false => self.config.penalty,
        }
    }

    /// What a suspect gains beyond its penalty.
    fn net(&self, (suspect, fit): &(usize, Fit)) -> f64 {
        fit.gain - self.suspects[*suspect].penalty
    }

    /// The suspects among `asked` that gain something.
    fn fits(&self, asked: impl Fn(&Suspect) -> bool) -> Vec<(usize, Fit)> {
        let (mut fits, mut room) = (Vec::new(), Room::default());
        for (n, suspect) in self.suspects.iter().enumerate().filter(|(_, suspect)| asked(suspect)) {
            let fit = self.fit(suspect, &mut room);
            if fit.gain > 0.0 {
                fits.push((n, fit));
            }
        }
        fits
    }

    /// The one with the highest net gain, of equal ones the first.
    fn best(&self, fits: &[(usize, Fit)]) -> Option<(usize, Fit)> {
        fits.iter().copied().reduce(|best, other| if self.net(&other) > self.net(&best) { other } else { best })
    }

    fn apply(&mut self, suspect: usize, weight: f64) {
        for &(at, times) in &self.suspects[suspect].passed {
            let path = &mut self.lossy[at as usize];
            path.weight = (path.weight + f64::from(times) * weight).max(self.config.noise);
        }
        self.classify();
    }

    fn run(&mut self) -> Vec<Finding> {
        let mut best = self.search(Breadth::Switch, MOST_FINDINGS);
        // What many paths pass may explain several causes better than each of them alone does, and is chosen first for that.
        for without in [Breadth::Switch, Breadth::HostLink] {
            let wide = best.iter().filter(|(chosen, ..)| self.suspects[*chosen].breadth >= without).count();
            if wide == 0 {
                continue;
            }
            let (gained, most) = (self.gained(&best), best.len() + CAUSES * wide);
            best.iter().for_each(|(suspect, fit, _)| self.apply(*suspect, -fit.weight));
            let narrow = if without == Breadth::Switch { Breadth::HostLink } else { Breadth::Uplink };
            let other = self.search(narrow, most.min(MOST_FINDINGS));
            let evidence: f64 = best.iter().map(|(_, fit, _)| fit.gain).sum();
            if self.gained(&other) > gained + CLEARLY * evidence {
                best = other;
            } else {
                other.iter().for_each(|(suspect, fit, _)| self.apply(*suspect, -fit.weight));
                best.iter().for_each(|(suspect, fit, _)| self.apply(*suspect, fit.weight));
            }
        }
        let reported = best.into_iter().filter(|(_, fit, _)| fit.gain >= self.config.penalty);
        let findings = reported.map(|(suspect, fit, instead)| Finding {
            component: self.suspects[suspect].component,
            loss: 1.0 - (-fit.weight).exp(),
            evidence: fit.gain,
            instead,
        });
        findings.collect()
    }

    /// At most `most` suspects, each the best one beside those before it, with what would do nearly as well. At first only
    /// suspects up to `broadest` are taken.
    fn search(&mut self, broadest: Breadth, most: usize) -> Vec<(usize, Fit, Vec<Component>)> {
        let mut chosen: Vec<(usize, Fit)> = Vec::new();
        while chosen.len() < most {
            let taken = |place: Component| chosen.iter().any(|(c, _)| self.suspects[*c].place == place);
            let fits = self.fits(|suspect| suspect.breadth <= broadest && !taken(suspect.place));
            let Some((suspect, fit)) = self.best(&fits) else { break };
            if self.net(&(suspect, fit)) < 0.0 {
                break;
            }
            self.apply(suspect, fit.weight);
            chosen.push((suspect, fit));
            self.refit(&mut chosen);
        }
        let mut alternatives = Vec::new();
        for _ in 0..3 {
            let before: Vec<usize> = chosen.iter().map(|(n, _)| *n).collect();
            alternatives = self.reconsider(&mut chosen);
            if before == chosen.iter().map(|(n, _)| *n).collect::<Vec<_>>() {
                break;
            }
        }
        chosen.into_iter().zip(alternatives).map(|((suspect, fit), instead)| (suspect, fit, instead)).collect()
    }

    /// By how much the chosen suspects, whose weights are applied, make everything more likely, less their penalties.
    fn gained(&self, chosen: &[(usize, Fit, Vec<Component>)]) -> f64 {
        let lost: f64 = self.lossy.iter().map(|path| path.lost * ln_lost(path.weight)).sum();
        let cost = |(suspect, fit, _): &(usize, Fit, Vec<Component>)| {
            self.suspects[*suspect].healthy * fit.weight + self.suspects[*suspect].penalty
        };
        lost - chosen.iter().map(cost).sum::<f64>()
    }

    /// Fits the weight of each chosen component anew, given the others.
    fn refit(&mut self, chosen: &mut [(usize, Fit)]) {
        for (suspect, fit) in chosen {
            self.apply(*suspect, -fit.weight);
            let again = self.fit(&self.suspects[*suspect], &mut Room::default());
            if again.weight > 0.0 {
                *fit = again;
            }
            self.apply(*suspect, fit.weight);
        }
    }

    /// Takes each component out and puts back what explains its part best. Returns what would do nearly as well.
    fn reconsider(&mut self, chosen: &mut Vec<(usize, Fit)>) -> Vec<Vec<Component>> {
        let mut alternatives = Vec::new();
        let mut at = 0;
        while at < chosen.len() {
            let (suspect, fit) = chosen[at];
            self.apply(suspect, -fit.weight);
            let others = chosen.iter().map(|(n, _)| *n).filter(|n| *n != suspect);
            let others: Vec<Component> = others.map(|n| self.suspects[n].place).collect();
            let fits = self.fits(|suspect| !others.contains(&suspect.place));
            match self.best(&fits) {
                Some((best, fit)) if self.net(&(best, fit)) >= 0.0 => {
                    // What is more likely beforehand is no evidence: alternatives are compared without penalties.
                    let least = fit.gain - self.config.margin;
                    self.apply(best, fit.weight);
                    chosen[at] = (best, fit);
                    let own = self.suspects[best].component;
                    let near = fits.iter().filter(|(_, other)| other.gain > least);
                    let near: BTreeSet<Component> =
                        near.map(|(n, _)| self.suspects[*n].component).filter(|other| *other != own).collect();
                    alternatives.push(near.into_iter().collect());
                    at += 1;
                }
                _ => {
                    chosen.remove(at);
                }
            }
        }
        alternatives
    }
}

/// The weight at which the likelihood of `terms` (class, traversals, lost probes) has its maximum: where
/// `sum(lost * times / (exp(noise + times * weight) - 1))` equals `healthy`. Newton's method on the reciprocal of that sum,
/// which is nearly a line.
fn most_likely(terms: &[(Class, f64, f64)], lost: f64, healthy: f64) -> f64 {
    if healthy <= 0.0 {
        return HEAVIEST;
    }
    let mut weight = (lost / healthy).ln_1p().clamp(LIGHTEST, HEAVIEST);
    for _ in 0..12 {
        let (mut sum, mut slope) = (0.0, 0.0);
        for (class, times, lost) in terms {
            let grown = (class.weight + times * weight).exp_m1();
            sum += lost * times / grown;
            slope += lost * times * times * (grown + 1.0) / (grown * grown);
        }
        // 1 / sum - 1 / healthy and its derivative, slope / sum^2.
        let step = (sum * sum / slope) * (1.0 / sum - 1.0 / healthy);
        let next = (weight - step).clamp(LIGHTEST, HEAVIEST);
        let done = (next - weight).abs() <= 1e-4 * weight;
        weight = next;
        if done {
            break;
        }
    }
    weight
}

/// Logarithm of the probability that a probe of this weight is lost.
fn ln_lost(weight: f64) -> f64 {
    (-(-weight).exp_m1()).ln()
}

/// Components that own an element.
fn forms(fabric: &Fabric, element: Element) -> Vec<Component> {
    match fabric.component(element) {
        link @ (Component::Uplink(..) | Component::HostLink(..)) => vec![link, link.with_direction(Direction::Both)],
        other => vec![other],
    }
}

#[cfg(test)]
mod tests;

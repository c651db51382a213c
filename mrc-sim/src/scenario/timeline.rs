//! From faults that each have a begin and an end to what the fabric is told: faults of one link or switch may overlap, and
//! none ends another's.

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::Instant;

use crate::fabric::{Fault, Impairment, LinkId, LinkSpec, Loss};

/// A link or switch by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    Link(LinkId),
    Switch(u32),
}

/// What is wrong while a fault lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Effect {
    /// No carrier, or a switch that is off.
    Down,
    /// The switch drops everything.
    Silent,
    /// Of frames of more than so many bytes.
    Loss(Loss, u32),
    Corruption(f64),
    /// Largest extra delay in nanoseconds.
    Jitter(u32),
    /// In bit/s.
    Rate(u64),
}

impl Effect {
    const KINDS: usize = 6;

    /// Effects of the same number replace each other, others add up.
    fn kind(self) -> usize {
        match self {
            Self::Down => 0,
            Self::Silent => 1,
            Self::Loss(..) => 2,
            Self::Corruption(_) => 3,
            Self::Jitter(_) => 4,
            Self::Rate(_) => 5,
        }
    }
}

/// One fault of one target, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Span {
    pub(super) target: Target,
    pub(super) effect: Effect,
    pub(super) begin: u64,
    pub(super) end: Option<u64>,
}

/// The faults under way at one target: begin and number of each, by kind.
#[derive(Default)]
struct Active([BTreeSet<(u64, usize)>; Effect::KINDS]);

impl Active {
    /// Of several faults of a kind the one that struck last holds.
    fn effect(&self, spans: &[Span], kind: usize) -> Option<Effect> {
        self.0[kind].last().map(|&(_, nth)| spans[nth].effect)
    }

    fn impairment(&self, spans: &[Span]) -> Impairment {
        let mut sum = Impairment::default();
        for kind in 0..Effect::KINDS {
            match self.effect(spans, kind) {
                Some(Effect::Loss(loss, longer_than)) => (sum.loss, sum.longer_than) = (loss, longer_than),
                Some(Effect::Corruption(probability)) => sum.corruption = probability,
                Some(Effect::Jitter(ns)) => sum.jitter_ns = ns,
                _ => {}
            }
        }
        sum
    }

    /// What the fabric is told now that `effect`, or its absence, holds at `target`.
    fn fault(&self, spans: &[Span], target: Target, kind: usize, base: &impl Fn(LinkId) -> LinkSpec) -> Fault {
        let effect = self.effect(spans, kind);
        match (target, effect) {
            (Target::Switch(index), Some(Effect::Down)) => Fault::SwitchDown(index),
            (Target::Switch(index), None) if kind == Effect::Down.kind() => Fault::SwitchUp(index),
            (Target::Switch(index), Some(_)) => Fault::Silent(index),
            (Target::Switch(index), None) => Fault::Loud(index),
            (Target::Link(link), Some(Effect::Down)) => Fault::Cut(link),
            (Target::Link(link), None) if kind == Effect::Down.kind() => Fault::Heal(link),
            (Target::Link(link), Some(Effect::Rate(rate_bps))) => {
                Fault::Degrade(link, LinkSpec { rate_bps, ..base(link) })
            }
            (Target::Link(link), None) if kind == Effect::Rate(0).kind() => Fault::Degrade(link, base(link)),
            (Target::Link(link), _) => Fault::Impair(link, self.impairment(spans)),
        }
    }
}

/// All changes in the order of time. `base` is what a link is when nothing slows it.
pub(super) fn merge(spans: &[Span], base: impl Fn(LinkId) -> LinkSpec) -> Vec<(Instant, Fault)> {
    let begins = spans.iter().enumerate().map(|(nth, span)| (span.begin, false, nth));
    let ends = spans.iter().enumerate().filter_map(|(nth, span)| Some((span.end?, true, nth)));
    let mut changes: Vec<(u64, bool, usize)> = begins.chain(ends).collect();
    // At one instant begins go first: a target whose next fault begins as the last one ends stays as it is.
    changes.sort_unstable();
    let mut active: BTreeMap<Target, Active> = BTreeMap::new();
    let mut faults = Vec::new();
    for (at, ends, nth) in changes {
        let span = &spans[nth];
        let (kind, entry) = (span.effect.kind(), (span.begin, nth));
        let state = active.entry(span.target).or_default();
        let before = state.effect(spans, kind);
        if ends {
            state.0[kind].remove(&entry);
        } else {
            state.0[kind].insert(entry);
        }
        if state.effect(spans, kind) != before {
            faults.push((Instant::from_nanos(at), state.fault(spans, span.target, kind, &base)));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(3);

    fn span(effect: Effect, begin: u64, end: Option<u64>) -> Span {
        Span { target: Target::Link(LINK), effect, begin, end }
    }

    fn told(spans: &[Span]) -> Vec<(u64, Fault)> {
        let base = |_| LinkSpec::new(25, 700);
        merge(spans, base).into_iter().map(|(at, fault)| (at.as_nanos(), fault)).collect()
    }

    #[test]
    fn a_flap_does_not_heal_what_is_down_for_good() {
        let spans =
            [span(Effect::Down, 100, None), span(Effect::Down, 50, Some(70)), span(Effect::Down, 200, Some(210))];
        assert_eq!(told(&spans), [(50, Fault::Cut(LINK)), (70, Fault::Heal(LINK)), (100, Fault::Cut(LINK))]);
        let spans = [span(Effect::Down, 0, Some(10)), span(Effect::Down, 10, Some(20))];
        assert_eq!(told(&spans), [(0, Fault::Cut(LINK)), (20, Fault::Heal(LINK))], "no gap between the two");
        let switch = |begin, end| Span { target: Target::Switch(1), ..span(Effect::Silent, begin, end) };
        let spans = [switch(0, Some(10)), switch(5, Some(15))];
        assert_eq!(told(&spans), [(0, Fault::Silent(1)), (15, Fault::Loud(1))]);
    }

    #[test]
    fn impairments_of_different_kinds_add_up() {
        let loss = Loss::Bernoulli { probability: 0.5 };
        let spans = [span(Effect::Loss(loss, 1_514), 0, Some(30)), span(Effect::Jitter(9), 10, Some(20))];
        let both = Impairment { loss, longer_than: 1_514, jitter_ns: 9, ..Impairment::default() };
        let first = Impairment { jitter_ns: 0, ..both };
        let expected = [(0, first), (10, both), (20, first), (30, Impairment::default())];
        assert_eq!(told(&spans), expected.map(|(at, spec)| (at, Fault::Impair(LINK, spec))));
    }

    #[test]
    fn a_slow_link_returns_to_what_it_was() {
        let slow = |gbps| Fault::Degrade(LINK, LinkSpec::new(gbps, 700));
        let rate = |gbps: u64, begin, end| span(Effect::Rate(gbps * 1_000_000_000), begin, end);
        let spans = [rate(10, 0, Some(40)), rate(5, 10, Some(20))];
        assert_eq!(told(&spans), [(0, slow(10)), (10, slow(5)), (20, slow(10)), (40, slow(25))]);
    }
}

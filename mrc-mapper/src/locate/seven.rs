//! 007 (Arzani et al., "007: Democratically Finding the Cause of Packet Drops", NSDI 2018).
//!
//! Each lost probe has one vote, which it divides evenly among all candidates on its path: links, their directions, their
//! switches and planes. The algorithm reports the component with most votes; of two with equally many, the one that
//! fewer paths pass. It takes back the votes of the paths through it, and repeats this until the highest vote is below
//! a given share of all votes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Finding, Localiser, Matrix, PathId, footprint};
use crate::topology::{Component, Direction};

/// The algorithm with its constant.
#[derive(Debug, Clone, Copy)]
pub struct Seven {
    /// Share of all votes below which nothing is reported.
    pub share: f64,
    /// Fewest lost probes in all: below, the votes are noise.
    pub fewest: u32,
}

impl Default for Seven {
    fn default() -> Self {
        Self { share: 0.01, fewest: 3 }
    }
}

/// What a path votes for.
fn voted(matrix: &Matrix, path: PathId) -> BTreeSet<Component> {
    let components = matrix.passes(path).iter().map(|pass| matrix.fabric().component(pass.0));
    let fabric = components.filter(|component| !matches!(component, Component::Host(_)));
    fabric.flat_map(|component| [component, component.with_direction(Direction::Both)]).collect()
}

impl Localiser for Seven {
    fn name(&self) -> &'static str {
        "007"
    }

    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding> {
        if counts.lost.values().sum::<u32>() < self.fewest {
            return Vec::new();
        }
        let mut open: BTreeMap<PathId, (BTreeSet<Component>, f64)> =
            counts.lost.iter().map(|(path, lost)| (*path, (voted(matrix, *path), f64::from(*lost)))).collect();
        let mut votes: BTreeMap<Component, f64> = BTreeMap::new();
        for (components, lost) in open.values() {
            for component in components {
                *votes.entry(*component).or_default() += lost / components.len() as f64;
            }
        }
        let all: f64 = votes.values().sum();
        let sizes: BTreeMap<Component, usize> =
            votes.keys().map(|component| (*component, footprint(matrix, *component).len())).collect();
        let order = |a: &(&Component, &f64), b: &(&Component, &f64)| {
            let same = (a.1 - b.1).abs() < 1e-9 * (1.0 + b.1);
            let by_vote = if same { Ordering::Equal } else { a.1.total_cmp(b.1) };
            by_vote.then(sizes[b.0].cmp(&sizes[a.0])).then(b.0.cmp(a.0))
        };
        let mut found = Vec::new();
        loop {
            let top = votes.iter().max_by(order).map(|(component, vote)| (*component, *vote));
            let Some((component, vote)) = top.filter(|(_, vote)| *vote > 1e-9 && *vote >= self.share * all) else {
                break;
            };
            found.push(Finding { component, loss: vote / all, evidence: 0.0, instead: Vec::new() });
            for path in footprint(matrix, component).keys() {
                let Some((components, lost)) = open.remove(path) else { continue };
                for other in &components {
                    if let Some(vote) = votes.get_mut(other) {
                        *vote -= lost / components.len() as f64;
                    }
                }
            }
            votes.remove(&component);
        }
        found
    }
}

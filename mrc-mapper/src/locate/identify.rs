//! Decides whether the paths can tell a fault from every other one.
//!
//! A fault is a set of components with loss weights. It is identifiable when
//! * every component is visible: at least half of the probes that pass it pass no component that is down as well, and
//! * no single component explains what two do, and no component can be exchanged for another one. An explanation gives
//!   every path the same success probability (components that are down: the same paths).
//!
//! This covers every explanation that differs from the truth in one component. Explanations by two other components are
//! not searched. If there is one, the fault still counts as identifiable, and the algorithm may miss it unjustly.

use std::collections::{BTreeMap, BTreeSet};

use super::{Matrix, PathId};
use crate::topology::{Component, Direction};

/// Traversals of a component per path.
pub type Footprint = BTreeMap<PathId, u32>;

/// Traversals of a component per path.
#[must_use]
pub fn footprint(matrix: &Matrix, component: Component) -> Footprint {
    let mut footprint = Footprint::new();
    for element in matrix.fabric().elements_of(component) {
        for &(path, times) in matrix.through(element) {
            *footprint.entry(path).or_default() += u32::from(times);
        }
    }
    footprint
}

/// What the paths can say about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Identify {
    /// Nothing else explains what the probes see.
    Identifiable,
    /// A component is hidden behind one that is down.
    Masked,
    /// Something else explains the same.
    Ambiguous,
}

/// A weight from which on a component is down.
const DOWN: f64 = 10.0;

impl Identify {
    /// Classifies a fault: components with their weights `-ln(1 - loss)`.
    #[must_use]
    pub fn of(matrix: &Matrix, fault: &[(Component, f64)]) -> Self {
        let prints: Vec<Footprint> = fault.iter().map(|(component, _)| footprint(matrix, *component)).collect();
        for (n, print) in prints.iter().enumerate() {
            let hidden = |path: &PathId| {
                let others = prints.iter().zip(fault).enumerate();
                others
                    .into_iter()
                    .any(|(m, (other, (_, weight)))| m != n && *weight >= DOWN && other.contains_key(path))
            };
            let rate = |path: &PathId| matrix.rate(*path);
            let seen: f64 = print.keys().filter(|path| !hidden(path)).map(rate).sum();
            if seen < 0.5 * print.keys().map(rate).sum::<f64>() || print.is_empty() {
                return Self::Masked;
            }
        }
        let everything = sum(&prints, fault, None);
        let known: BTreeSet<Component> = fault.iter().map(|(component, _)| *component).collect();
        for leave in 0..fault.len() {
            let rest = sum(&prints, fault, Some(leave));
            if exchangeable(matrix, &everything, &rest, &known) {
                return Self::Ambiguous;
            }
        }
        if fault.len() > 1 && exchangeable(matrix, &everything, &BTreeMap::new(), &known) {
            return Self::Ambiguous;
        }
        Self::Identifiable
    }
}

/// Weight of each path under a fault, without the component `leave`.
fn sum(prints: &[Footprint], fault: &[(Component, f64)], leave: Option<usize>) -> BTreeMap<PathId, f64> {
    let mut total = BTreeMap::new();
    for (n, (print, (_, weight))) in prints.iter().zip(fault).enumerate() {
        if Some(n) != leave {
            print.iter().for_each(|(path, times)| *total.entry(*path).or_default() += weight * f64::from(*times));
        }
    }
    total
}

/// Whether `rest` and some unknown component make `everything`.
fn exchangeable(
    matrix: &Matrix,
    everything: &BTreeMap<PathId, f64>,
    rest: &BTreeMap<PathId, f64>,
    known: &BTreeSet<Component>,
) -> bool {
    let left: BTreeMap<PathId, f64> = everything
        .iter()
        .map(|(path, weight)| (*path, weight - rest.get(path).copied().unwrap_or(0.0)))
        .filter(|(_, weight)| *weight > 1e-12)
        .collect();
    // Paths that the rest keeps down say nothing about the component that is left out.
    let silent = |path: &PathId| rest.get(path).is_some_and(|weight| *weight >= DOWN);
    let Some((first, _)) = left.iter().find(|(path, _)| !silent(path)) else { return true };
    let mut candidates = BTreeSet::new();
    for (element, _) in matrix.passes(*first) {
        let component = matrix.fabric().component(*element);
        candidates.insert(component);
        candidates.insert(component.with_direction(Direction::Both));
    }
    candidates.into_iter().filter(|candidate| !known.contains(candidate)).any(|candidate| {
        let print = footprint(matrix, candidate);
        let scale = left[first] / f64::from(print[first]);
        let explains = |path: &PathId| {
            let (want, have) = (left.get(path).copied().unwrap_or(0.0), print.get(path).copied().unwrap_or(0));
            let have = scale * f64::from(have);
            silent(path) || (want >= DOWN && have >= DOWN) || (want - have).abs() < 1e-9 * (1.0 + want)
        };
        print.keys().all(explains) && left.keys().all(explains)
    })
}

//! NetBouncer (Tan et al., "NetBouncer: Active Device and Link Failure Localization in Data Center Networks", NSDI 2019).
//!
//! Each link has an unknown success probability `x`; that of a path is the product over its links. Coordinate descent
//! minimises `sum over paths of (y - product)^2 + lambda * sum over links of x (1 - x)` with `0 <= x <= 1`. The
//! regulariser pushes each link to one of the ends. Links below [`NetBouncer::bad_link`] are reported.
//!
//! A switch without a single good path is reported first, as a whole, and its paths are left out: the condition of the
//! paper's theorem does not hold for its links.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Finding, Localiser, Matrix, PathId, roll_up};
use crate::topology::{Component, Element};

/// The algorithm with its constants.
#[derive(Debug, Clone, Copy)]
pub struct NetBouncer {
    /// Weight of the regulariser.
    pub lambda: f64,
    /// A link is reported below this success probability.
    pub bad_link: f64,
    /// A path is good from this success probability on.
    pub good_path: f64,
    /// Rounds of coordinate descent at most.
    pub rounds: u32,
    /// Descent ends when the objective changes by less.
    pub tolerance: f64,
}

impl Default for NetBouncer {
    fn default() -> Self {
        Self { lambda: 1.0, bad_link: 1.0 - 1e-3, good_path: 1.0 - 1e-4, rounds: 60, tolerance: 1e-9 }
    }
}

impl Localiser for NetBouncer {
    fn name(&self) -> &'static str {
        "netbouncer"
    }

    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding> {
        let switches = self.bad_switches(matrix, counts);
        let excluded: BTreeSet<PathId> = switches
            .keys()
            .flat_map(|switch| matrix.fabric().elements_of(*switch))
            .flat_map(|element| matrix.through(element).iter().map(|(path, _)| *path))
            .collect();
        let x = self.solve(matrix, |path| (!excluded.contains(&path)).then(|| counts.success(matrix, path)), counts);
        let bad = x.into_iter().filter(|(_, x)| *x < self.bad_link).map(|(link, x)| (link, 1.0 - x)).collect();
        roll_up(matrix, &bad, &switches)
    }
}

impl NetBouncer {
    /// Switches all of whose paths are bad.
    fn bad_switches(&self, matrix: &Matrix, counts: &Counts) -> BTreeMap<Component, f64> {
        let fabric = matrix.fabric();
        let lossy = counts.lost.iter().filter(|(_, lost)| **lost > 0).map(|(path, _)| *path);
        let touched: BTreeSet<Element> = lossy.flat_map(|path| matrix.passes(path).iter().map(|pass| pass.0)).collect();
        let mut bad = BTreeMap::new();
        for element in touched {
            let component = fabric.component(element);
            if !matches!(component, Component::T0(..) | Component::T1(..)) {
                continue;
            }
            let best =
                matrix.through(element).iter().map(|(path, _)| counts.success(matrix, *path)).fold(0.0, f64::max);
            if best < self.good_path {
                bad.insert(component, 1.0 - best);
            }
        }
        bad
    }

    /// Latent success probabilities of the links that bad paths pass; all others are 1. `success` is the measured share of
    /// a path, none for a path that is left out.
    pub(crate) fn solve(
        &self,
        matrix: &Matrix,
        success: impl Fn(PathId) -> Option<f64>,
        counts: &Counts,
    ) -> BTreeMap<Element, f64> {
        let bad = counts.lost.keys().copied().filter(|path| success(*path).is_some());
        let links: BTreeSet<Element> = bad
            .flat_map(|path| matrix.passes(path).iter().map(|pass| pass.0))
            .filter(|element| matrix.is_link(*element))
            .collect();
        let links: Vec<Element> = links.into_iter().collect();
        // Paths through these links, the measured share and the links of each.
        let mut numbers: BTreeMap<PathId, usize> = BTreeMap::new();
        let (mut y, mut members): (Vec<f64>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        let mut paths_of: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
        for (n, link) in links.iter().enumerate() {
            for (path, _) in matrix.through(*link) {
                let Some(share) = success(*path) else { continue };
                let number = *numbers.entry(*path).or_insert_with(|| {
                    y.push(share);
                    members.push(Vec::new());
                    y.len() - 1
                });
                members[number].push(n);
                paths_of[n].push(number);
            }
        }
        let mean = |paths: &Vec<usize>| paths.iter().map(|p| y[*p]).sum::<f64>() / paths.len().max(1) as f64;
        let mut x: Vec<f64> = paths_of.iter().map(mean).collect();
        let objective = |x: &[f64]| {
            let error =
                |(y, members): (&f64, &Vec<usize>)| (y - members.iter().map(|n| x[*n]).product::<f64>()).powi(2);
            let fit: f64 = y.iter().zip(&members).map(error).sum();
            fit + self.lambda * x.iter().map(|x| x * (1.0 - x)).sum::<f64>()
        };
        let mut before = objective(&x);
        for _ in 0..self.rounds {
            for n in 0..links.len() {
                let (mut yb, mut bb) = (0.0, 0.0);
                for path in &paths_of[n] {
                    let b: f64 = members[*path].iter().filter(|other| **other != n).map(|other| x[*other]).product();
                    yb += y[*path] * b;
                    bb += b * b;
                }
                x[n] = minimum(yb, bb, self.lambda);
            }
            let now = objective(&x);
            if (before - now).abs() < self.tolerance {
                break;
            }
            before = now;
        }
        links.into_iter().zip(x).collect()
    }
}

/// Where `sum (y - b x)^2 + lambda x (1 - x)` is smallest in `[0, 1]`, from the sums of `y b` and `b b`.
fn minimum(yb: f64, bb: f64, lambda: f64) -> f64 {
    let curvature = bb - lambda;
    if curvature > 0.0 {
        return ((yb - lambda / 2.0) / curvature).clamp(0.0, 1.0);
    }
    // Concave: one of the ends.
    let at_one = bb - 2.0 * yb;
    if at_one <= 0.0 { 1.0 } else { 0.0 }
}

//! Majority: a link, switch or plane is bad when more than half of its paths are.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Finding, Localiser, Matrix, roll_up};
use crate::topology::Element;

/// The algorithm.
#[derive(Debug, Clone, Copy, Default)]
pub struct Majority;

impl Localiser for Majority {
    fn name(&self) -> &'static str {
        "majority"
    }

    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding> {
        let bad = counts.bad_paths(matrix);
        let touched: BTreeSet<Element> = bad
            .keys()
            .flat_map(|path| matrix.passes(*path).iter().map(|pass| pass.0))
            .filter(|element| matrix.is_fabric(*element))
            .collect();
        let mut found = BTreeMap::new();
        for link in touched {
            let paths = matrix.through(link);
            let hits = paths.iter().filter(|(path, _)| bad.contains_key(path)).count();
            if 2 * hits > paths.len() {
                found.insert(link, hits as f64 / paths.len() as f64);
            }
        }
        roll_up(matrix, &found, &BTreeMap::new())
    }
}
